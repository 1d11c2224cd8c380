//! Push of a model to its registry: the missing blobs, then the exact bytes of the manifest.
//!
//! A blob that the registry already has is not uploaded again. A blob in another repository, which the manifest names, is
//! mounted from there. All other blobs are uploaded in parts ([`upload`]). An interrupted push resumes with the next blob.

mod part;
mod upload;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, Layer, Library, LibraryError, Manifest, ModelRef};
use reqwest::{Method, StatusCode};
use serde::Deserialize;

use crate::client::{MANIFEST_MEDIA_TYPE, Registry, Request, scope};
use crate::{SourceError, client};
use part::Blob;
use upload::Upload;

/// Settings of pushes.
#[derive(Debug, Clone)]
pub struct PushConfig {
    /// Minimum size of the parts of a large blob.
    pub min_part_bytes: u64,
    /// Maximum size of a part.
    pub max_part_bytes: u64,
    /// Parallel uploads to direct URLs, if the registry provides them.
    pub direct_streams: usize,
    /// Attempts for each request.
    pub max_attempts: u32,
    /// The backoff after the first failure; it doubles with each further failure.
    pub backoff: Duration,
}

/// The values of Ollama: parts of a sixteenth of the blob, between 100 MB and 1 GB, and six attempts.
impl Default for PushConfig {
    fn default() -> Self {
        Self {
            min_part_bytes: 100_000_000,
            max_part_bytes: 1_000_000_000,
            direct_streams: 4,
            max_attempts: 6,
            backoff: Duration::from_secs(1),
        }
    }
}

/// Progress of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushStep {
    /// Progress of a blob's upload. `sent_bytes` never decreases. It is the full size at once if the registry has the blob.
    Blob {
        /// The blob.
        digest: Digest,
        /// Size of the blob.
        size_bytes: u64,
        /// Uploaded bytes.
        sent_bytes: u64,
    },
    /// A request failed and is retried after a delay.
    Waiting {
        /// The error, with the host.
        reason: String,
        /// The delay.
        wait: Duration,
    },
    /// All blobs are uploaded; the manifest is next.
    Manifest,
}

/// Callback for the progress of a push; may be called from any thread.
pub type PushWatcher = Arc<dyn Fn(PushStep) + Send + Sync>;

/// Error of a push. The model cannot be pulled from the registry, unless an earlier version exists there.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// A request to the registry failed.
    #[error(transparent)]
    Registry(#[from] SourceError),
    /// A blob is missing in the library, or its size does not match the manifest.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A blob could not be read during the upload.
    #[error("cannot read blob {digest}: {reason}")]
    Blob {
        /// The blob.
        digest: Digest,
        /// The cause.
        reason: String,
    },
    /// The manifest is invalid.
    #[error("cannot parse the manifest: {0}")]
    Manifest(String),
}

impl Registry {
    /// Pushes a model: the blobs of its manifest from `library`, then the manifest. Dropping the future cancels the push.
    ///
    /// # Errors
    /// If the model in the library is incomplete (nothing is sent then), or a request fails.
    pub async fn push(
        &self,
        name: &ModelRef,
        manifest: &[u8],
        library: &Library,
        config: &PushConfig,
        watcher: &PushWatcher,
    ) -> Result<(), PushError> {
        let read = Manifest::parse(manifest).map_err(PushError::Manifest)?;
        let layers: Vec<Layer> = read.layers.iter().chain(&read.config).cloned().collect();
        let within = library.clone();
        let blobs = tokio::task::spawn_blocking(move || blobs(&layers, &within));
        let blobs = blobs.await.expect("looking for blobs does not panic")?;
        let origins = origins(manifest);
        for blob in &blobs {
            let from = origins.get(&blob.digest).filter(|from| from.host().eq_ignore_ascii_case(name.host()));
            Upload { registry: self, name, config, watcher, blob, from }.run().await?;
        }
        watcher(PushStep::Manifest);
        self.put_manifest(name, manifest, &read.digest, config, watcher).await
    }

    async fn put_manifest(
        &self,
        name: &ModelRef,
        manifest: &[u8],
        digest: &Digest,
        config: &PushConfig,
        watcher: &PushWatcher,
    ) -> Result<(), PushError> {
        let url = self.url(name, &format!("manifests/{}", name.tag()));
        let mut request =
            Request::new(Method::PUT, url, scope(name, true)).with_header("content-type", MANIFEST_MEDIA_TYPE);
        request.body = manifest.to_vec().into();
        request.follow_redirects = false;
        let mut retries = Retries::new(config, watcher);
        loop {
            let outcome = match self.execute(&request).await {
                Ok(response)
                    if matches!(response.status(), StatusCode::OK | StatusCode::CREATED | StatusCode::ACCEPTED) =>
                {
                    let header_digest =
                        response.header("docker-content-digest").filter(|digest| digest.starts_with("sha256:"));
                    if header_digest.is_some_and(|header| header.parse() != Ok(*digest)) {
                        return Err(response.refused("it stored the manifest under another digest").into());
                    }
                    return Ok(());
                }
                Ok(response) => response.into_error().await,
                Err(error) => error,
            };
            retries.wait_or_fail(outcome).await?;
        }
    }
}

/// Finds the distinct blobs of these layers in the library.
fn blobs(layers: &[Layer], library: &Library) -> Result<Vec<Blob>, LibraryError> {
    let mut seen = HashSet::new();
    let distinct = layers.iter().filter(|layer| seen.insert(layer.digest));
    let blob =
        |layer: &Layer| Ok(Blob { digest: layer.digest, size_bytes: layer.size_bytes, path: library.blob(layer)? });
    distinct.map(blob).collect()
}

/// The source repositories of blobs in a manifest. Ollama writes them into models that are derived from others.
fn origins(manifest: &[u8]) -> HashMap<Digest, ModelRef> {
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

/// Remaining attempts and backoff of one request.
struct Retries<'a> {
    left: u32,
    backoff: Duration,
    watcher: &'a PushWatcher,
}

impl<'a> Retries<'a> {
    fn new(config: &PushConfig, watcher: &'a PushWatcher) -> Self {
        Self { left: config.max_attempts.saturating_sub(1), backoff: config.backoff, watcher }
    }

    /// Reports the failure and waits before a retry. Returns the error if it is permanent or no attempts are left.
    async fn wait_or_fail(&mut self, error: SourceError) -> Result<(), SourceError> {
        let requested_wait = match &error {
            SourceError::Broken { .. } => None,
            SourceError::Busy { retry_after, .. } => *retry_after,
            SourceError::Absent { .. }
            | SourceError::Refused { .. }
            | SourceError::InvalidManifest { .. }
            | SourceError::Untrusted { .. } => return Err(error),
        };
        if self.left == 0 {
            return Err(error);
        }
        self.left -= 1;
        let wait = requested_wait.unwrap_or(self.backoff).max(self.backoff);
        (self.watcher)(PushStep::Waiting { reason: error.to_string(), wait });
        tokio::time::sleep(wait).await;
        self.backoff *= 2;
        Ok(())
    }
}

/// The URL in a header of a response, for the next request of an upload.
fn next_url(
    from: &reqwest::Url,
    response: &client::RegistryResponse,
    header: &str,
) -> Result<Option<reqwest::Url>, SourceError> {
    let Some(text) = response.header(header) else { return Ok(None) };
    let url = from
        .join(text)
        .map_err(|error| response.refused(format!("its {header} header is not a valid URL: {error}")))?;
    client::check_redirect(from, &url)
        .map_err(|reason| response.refused(format!("its {header} header is not allowed: {reason}")))?;
    Ok(Some(url))
}

#[cfg(test)]
mod tests;
