//! Models that go to a registry: every blob that it lacks, then the manifest, byte for byte, which makes them a model.
//!
//! A registry that has a blob already, in this repository or in another one that the manifest names as its source, gets
//! nothing sent. All others are uploaded in parts ([`upload`]); nothing is repeated that an interrupted push had finished.

mod part;
mod upload;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, Layer, Library, LibraryError, Manifest, ModelRef};
use reqwest::{Method, StatusCode};
use serde::Deserialize;

use crate::client::{MANIFEST_MEDIA_TYPE, Question, Registry, scope};
use crate::{SourceError, client};
use part::Blob;
use upload::Upload;

/// How a push goes about it.
#[derive(Debug, Clone)]
pub struct PushRules {
    /// The smallest part that a large blob is cut into.
    pub min_part_bytes: u64,
    /// The largest part.
    pub max_part_bytes: u64,
    /// How many parts go to direct addresses at once, where a registry gives those out.
    pub direct_streams: usize,
    /// How often one step is tried.
    pub tries: u32,
    /// The pause after the first failure; each further one is twice as long.
    pub pause: Duration,
}

/// As Ollama does it: sixteenths of the blob between 100 MB and 1 GB, six tries.
impl Default for PushRules {
    fn default() -> Self {
        Self {
            min_part_bytes: 100_000_000,
            max_part_bytes: 1_000_000_000,
            direct_streams: 4,
            tries: 6,
            pause: Duration::from_secs(1),
        }
    }
}

/// How far a push is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushStep {
    /// A blob is on its way. What is sent never becomes less; all of it is there at once where the registry had it.
    Blob {
        /// Which.
        digest: Digest,
        /// Its length.
        size_bytes: u64,
        /// How much of it is there.
        sent_bytes: u64,
    },
    /// A step failed, and is tried again after a while.
    Waiting {
        /// What happened, with the host.
        reason: String,
        /// For how long.
        wait: Duration,
    },
    /// All blobs are there; the manifest goes.
    Manifest,
}

/// Who is told how far a push is, from whatever thread.
pub type PushWatcher = Arc<dyn Fn(PushStep) + Send + Sync>;

/// Why a model did not get to a registry. Nothing of it can be pulled from there unless it was there before.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The registry, or the way to it.
    #[error(transparent)]
    Registry(#[from] SourceError),
    /// A blob is missing here or has another length than the manifest says.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A blob could not be read here while it was sent.
    #[error("blob {digest} cannot be read: {reason}")]
    Blob {
        /// Which.
        digest: Digest,
        /// What happened.
        reason: String,
    },
    /// The bytes to push are no manifest.
    #[error("the manifest cannot be read: {0}")]
    Manifest(String),
}

impl Registry {
    /// Pushes a model: the blobs that its manifest names, out of `library`, and the manifest. Dropping the future ends it.
    ///
    /// # Errors
    /// What is wrong here, before anything is sent, or with the registry.
    pub async fn push(
        &self,
        name: &ModelRef,
        manifest: &[u8],
        library: &Library,
        rules: &PushRules,
        watcher: &PushWatcher,
    ) -> Result<(), PushError> {
        let read = Manifest::parse(manifest).map_err(PushError::Manifest)?;
        let origins = origins(manifest);
        let mut seen = HashSet::new();
        let mut blobs = Vec::new();
        for layer in read.layers.iter().chain(&read.config) {
            let Layer { digest, size_bytes, .. } = *layer;
            if seen.insert(digest) {
                let blob = Blob { digest, size_bytes, path: library.blob(layer)? };
                let from = origins.iter().find(|(of, _)| *of == digest).map(|(_, from)| from);
                blobs.push((blob, from.filter(|from| from.host().eq_ignore_ascii_case(name.host()))));
            }
        }
        for (blob, from) in blobs {
            Upload { registry: self, name, rules, watcher, blob: &blob, from }.run().await?;
        }
        watcher(PushStep::Manifest);
        self.put_manifest(name, manifest, &read.digest, rules, watcher).await
    }

    async fn put_manifest(
        &self,
        name: &ModelRef,
        manifest: &[u8],
        digest: &Digest,
        rules: &PushRules,
        watcher: &PushWatcher,
    ) -> Result<(), PushError> {
        let url = self.url(name, &format!("manifests/{}", name.tag()));
        let mut question = Question::new(Method::PUT, url, scope(name, true)).with("content-type", MANIFEST_MEDIA_TYPE);
        question.body = manifest.to_vec().into();
        question.follow = false;
        let mut tries = Tries::new(rules, watcher);
        loop {
            let outcome = match self.ask(&question).await {
                Ok(answer)
                    if matches!(answer.status(), StatusCode::OK | StatusCode::CREATED | StatusCode::ACCEPTED) =>
                {
                    let told = answer.header("docker-content-digest").filter(|told| told.starts_with("sha256:"));
                    if told.is_some_and(|told| told.parse() != Ok(*digest)) {
                        return Err(answer.refused("it keeps the manifest under another digest than its own").into());
                    }
                    return Ok(());
                }
                Ok(answer) => answer.into_error().await,
                Err(error) => error,
            };
            tries.again(outcome).await?;
        }
    }
}

/// The repositories that a manifest names as the source of its blobs; Ollama writes them into what it makes of other models.
fn origins(manifest: &[u8]) -> Vec<(Digest, ModelRef)> {
    #[derive(Deserialize)]
    struct Json {
        #[serde(default)]
        layers: Vec<Origin>,
    }
    #[derive(Deserialize)]
    struct Origin {
        digest: String,
        #[serde(default)]
        from: String,
    }
    let layers = serde_json::from_slice::<Json>(manifest).map(|json| json.layers).unwrap_or_default();
    layers.iter().filter_map(|layer| Some((layer.digest.parse().ok()?, layer.from.parse().ok()?))).collect()
}

/// What is left of the tries of one step.
struct Tries<'a> {
    left: u32,
    pause: Duration,
    watcher: &'a PushWatcher,
}

impl<'a> Tries<'a> {
    fn new(rules: &PushRules, watcher: &'a PushWatcher) -> Self {
        Self { left: rules.tries.saturating_sub(1), pause: rules.pause, watcher }
    }

    /// Says so and waits before another try, or returns the error where none is left or none would help.
    async fn again(&mut self, error: SourceError) -> Result<(), SourceError> {
        let asked = match &error {
            SourceError::Broken { .. } => None,
            SourceError::Busy { retry_after, .. } => *retry_after,
            SourceError::Absent { .. } | SourceError::Refused { .. } | SourceError::Untrusted { .. } => {
                return Err(error);
            }
        };
        if self.left == 0 {
            return Err(error);
        }
        self.left -= 1;
        let wait = asked.unwrap_or(self.pause).max(self.pause);
        (self.watcher)(PushStep::Waiting { reason: error.to_string(), wait });
        tokio::time::sleep(wait).await;
        self.pause *= 2;
        Ok(())
    }
}

/// Where an upload goes on, by an answer to one of its steps: an address that the next step may go to.
fn next_address(
    from: &reqwest::Url,
    answer: &client::Answer,
    header: &str,
) -> Result<Option<reqwest::Url>, SourceError> {
    let Some(text) = answer.header(header) else { return Ok(None) };
    let url = from.join(text).map_err(|error| answer.refused(format!("its {header} is no address: {error}")))?;
    if !client::may_lead(from, &url) {
        return Err(answer.refused(format!("its {header} leads from {} to {}", from.scheme(), url.scheme())));
    }
    Ok(Some(url))
}

#[cfg(test)]
mod tests;
