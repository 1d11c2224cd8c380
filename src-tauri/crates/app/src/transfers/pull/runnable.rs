//! Check before a download: can this version run the model? The config and the beginning of the model file say so, long
//! before the tensors are downloaded.
//!
//! ```text
//! config   --> format, remote host, renderer
//! template --> only if the renderer is not built in: whether it replaces the renderer
//! model    --> the first MiB, then 4, 16 and at most 32 MiB, until metadata and tensor table are complete
//! ```
//!
//! The bytes belong to the download of the blob, so they are stored, and a source with ranges sends no byte twice.
//!
//! **Invariant:** the digest of an incomplete blob is not verified yet. So a source can cause a wrong refusal, but not more:
//! a beginning that cannot be read is removed, and the next attempt requests it again.

use std::sync::Arc;

use cairn_registry::{BlobRequest, BlobSource, Downloads, Priority, Subscription};
use cairn_store::{Config, Layer, LayerKind, Manifest};
use tokio::io::AsyncReadExt;
use tokio::task::spawn_blocking;

use super::Inner;
use super::error::PullError;
use super::job::Job;
use super::shared;
use crate::library::{HeadCheck, template};
use crate::transfers::downloading_blob::DownloadingBlob;

/// Bytes of the first request.
const FIRST_BYTES: u64 = 1 << 20;
/// Each further request leads to this many times as many bytes.
const GROWTH: u64 = 4;
/// Maximum length of metadata and tensor table. Those of the largest vocabularies have a third of it.
const MAX_HEAD_BYTES: u64 = 32 << 20;
/// Maximum size of a config or template. Real ones have some hundred or some thousand bytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;
/// Format of model files that Cairn reads, as configs name it.
const GGUF: &str = "gguf";

/// The downloads and the sources of a pull.
pub(super) struct Access<'a> {
    pub(super) inner: &'a Arc<Inner>,
    pub(super) job: &'a Arc<Job>,
    pub(super) downloads: &'a Downloads,
    pub(super) sources: &'a [Arc<dyn BlobSource>],
}

/// The download of a model file with a checked beginning. While it lives, the download is not cancelled.
pub(super) struct CheckedBlob {
    _blob: DownloadingBlob,
}

/// Checks whether this version can run the model. Returns the download of its file, unless the library has it. A complete
/// download of a refused model is checked again.
///
/// # Errors
/// [`PullError::CannotRun`], or the error of the download.
pub(super) async fn check(access: &Access<'_>, manifest: &Manifest) -> Result<Option<CheckedBlob>, PullError> {
    let request = access.job.view().request.clone();
    // Clients of the mirror may have another version.
    if request.force || request.for_clients {
        return Ok(None);
    }
    let model = manifest.layers.iter().find(|layer| layer.kind == LayerKind::Model);
    let size_bytes = model.map_or(0, |layer| layer.size_bytes);
    let config = match &manifest.config {
        Some(layer) => access.config(layer).await?.unwrap_or_default(),
        None => Config::default(),
    };
    if let Some(reason) = refusal(&config) {
        return Err(access.refuse(reason, size_bytes));
    }
    match model {
        Some(layer) if access.inner.library.blob(layer).is_err() => {
            let missing = access.missing_renderer(&config, manifest).await?;
            access.head(layer, missing).await.map(Some)
        }
        _ => Ok(None),
    }
}

/// Why a model with this config cannot run.
fn refusal(config: &Config) -> Option<String> {
    if !config.remote_host.is_empty() {
        return Some(format!("it has no weights and runs only at {}", config.remote_host));
    }
    let is_readable = config.model_format.is_empty() || config.model_format.eq_ignore_ascii_case(GGUF);
    (!is_readable).then(|| format!("format {}", config.model_format))
}

impl Access<'_> {
    fn refuse(&self, reason: String, size_bytes: u64) -> PullError {
        // Texts of the model are untrusted.
        let reason = reason.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        PullError::CannotRun { name: self.job.name.to_string(), reason, size_bytes }
    }

    /// Requests a blob, or its first `limit_bytes` bytes.
    pub(super) fn fetch(&self, layer: &Layer, limit_bytes: Option<u64>) -> Subscription {
        let has_watchers = self.job.view().watchers > 0;
        self.downloads.fetch(BlobRequest {
            digest: layer.digest,
            size_bytes: layer.size_bytes,
            sources: self.sources.to_vec(),
            priority: if has_watchers { Priority::Normal } else { Priority::Background },
            label: self.job.name.to_string(),
            limit_bytes,
        })
    }

    /// Downloads the config. `None` if it is not one.
    async fn config(&self, layer: &Layer) -> Result<Option<Config>, PullError> {
        let text = self.text(layer).await?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Downloads a text. `None` if it is not one, or too long.
    async fn text(&self, layer: &Layer) -> Result<Option<String>, PullError> {
        if layer.size_bytes > MAX_TEXT_BYTES {
            return Ok(None);
        }
        let completed = self.fetch(layer, None).wait().await?;
        self.job.complete_blob(layer);
        Ok(tokio::fs::read_to_string(&completed.path).await.ok())
    }

    /// Returns why chats fail, unless the model's file has a template. `None` if the renderer in the config is built in, or if the
    /// manifest's template replaces it.
    async fn missing_renderer(&self, config: &Config, manifest: &Manifest) -> Result<Option<String>, PullError> {
        let Some(reason) = template::missing_renderer(&config.renderer) else { return Ok(None) };
        let text = match manifest.layer(&LayerKind::Template) {
            Some(layer) => self.text(layer).await?.unwrap_or_default(),
            None => String::new(),
        };
        Ok((!template::replaces_renderer(&text)).then_some(reason))
    }

    /// Downloads the beginning of a model file until it has metadata and tensor table, and checks them. `missing`: why the model is
    /// refused if its file has no template.
    async fn head(&self, layer: &Layer, missing: Option<String>) -> Result<CheckedBlob, PullError> {
        let (digest, size_bytes) = (layer.digest, layer.size_bytes);
        let (library, staging) = (self.inner.library.clone(), self.downloads.staging().clone());
        let subscription = self.fetch(layer, Some(FIRST_BYTES));
        let mut blob = DownloadingBlob::new(subscription, library, staging, digest, size_bytes);
        let mut wanted = FIRST_BYTES.min(size_bytes);
        loop {
            let bytes = self.read(&mut blob, wanted).await?;
            self.job.progress(&digest, &blob.progress());
            let models = self.inner.models.clone();
            let checked = spawn_blocking(move || models.check_head(&bytes, size_bytes)).await;
            match checked.expect("checking a head does not panic") {
                HeadCheck::Runs { need_bytes, memory_bytes, has_template } => {
                    if let Some(reason) = missing.filter(|_| !has_template) {
                        return Err(self.refuse(reason, size_bytes));
                    }
                    tracing::info!(model = %self.job.name, size_bytes, need_bytes, "the model can run");
                    if need_bytes > memory_bytes {
                        self.job.problem(too_large(need_bytes, memory_bytes));
                    }
                    return Ok(CheckedBlob { _blob: blob });
                }
                HeadCheck::Longer(at_least) if wanted < MAX_HEAD_BYTES && at_least <= MAX_HEAD_BYTES => {
                    wanted = at_least.max(wanted * GROWTH).min(MAX_HEAD_BYTES).min(size_bytes);
                    blob.raise_limit(wanted);
                }
                HeadCheck::Longer(_) => {
                    let limit = MAX_HEAD_BYTES >> 20;
                    let reason = format!("its metadata and tensor table have more than {limit} MiB");
                    return Err(self.refuse(reason, size_bytes));
                }
                HeadCheck::Unsupported(reason) => return Err(self.refuse(reason, size_bytes)),
                HeadCheck::Unreadable(reason) => {
                    drop(blob);
                    if self.inner.needed_by_other_jobs(self.job, &[digest]).is_empty() {
                        shared::remove(self.downloads, digest).await;
                        self.job.forget_bytes(&digest);
                    }
                    return Err(self.refuse(format!("its file cannot be read: {reason}"), size_bytes));
                }
            }
        }
    }

    /// Reads the first `len` bytes of a blob when they are downloaded.
    async fn read(&self, blob: &mut DownloadingBlob, len: u64) -> Result<Vec<u8>, PullError> {
        let mut position = 0;
        while position < len {
            (position, _) = blob.beyond(position).await?;
        }
        let mut bytes = Vec::new();
        let read = async { blob.open().await?.take(len).read_to_end(&mut bytes).await };
        match read.await {
            Ok(_) => Ok(bytes),
            Err(error) => {
                Err(PullError::Library { folder: self.inner.library.root().to_owned(), reason: error.to_string() })
            }
        }
    }
}

fn too_large(need_bytes: u64, memory_bytes: u64) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    format!(
        "the model needs about {:.1} GiB of memory and this machine has {:.1} GiB: it loads only with --force, and answers \
         slowly",
        gib(need_bytes),
        gib(memory_bytes)
    )
}
