//! A blob that is being downloaded, for readers that do not wait for its end.

use std::io;
use std::time::Duration;

use cairn_registry::{BlobProgress, DownloadError, Phase, Subscription};
use cairn_store::{Digest, Library, Staging};
use tokio::fs::File;
use tokio::sync::watch;
use tokio::time::Instant;

/// Wait without data after which the reader's position gets priority. Ollama's client gives up a part after 30 s.
const READ_TIMEOUT: Duration = Duration::from_secs(8);

/// A blob that is being downloaded. The subscription keeps the download running.
pub(super) struct DownloadingBlob {
    subscription: Subscription,
    progress: watch::Receiver<BlobProgress>,
    library: Library,
    staging: Staging,
    digest: Digest,
    size_bytes: u64,
}

impl DownloadingBlob {
    pub(super) fn new(
        subscription: Subscription,
        library: Library,
        staging: Staging,
        digest: Digest,
        size_bytes: u64,
    ) -> Self {
        let progress = subscription.progress();
        Self { subscription, progress, library, staging, digest, size_bytes }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Requests more leading bytes of a limited download.
    pub(super) fn raise_limit(&self, bytes: u64) {
        self.subscription.raise_limit(bytes);
    }

    /// The progress of the download.
    pub(super) fn progress(&self) -> BlobProgress {
        self.progress.borrow().clone()
    }

    /// Waits for bytes at `position`. Returns the end of the available bytes, and the attempt of the download.
    pub(super) async fn beyond(&mut self, position: u64) -> Result<(u64, u32), DownloadError> {
        let mut prioritize_at = Instant::now() + READ_TIMEOUT;
        loop {
            let (written, attempt, phase) = {
                let now = self.progress.borrow_and_update();
                let there = now.written.iter().find(|range| range.contains(&position)).map_or(0, |range| range.end);
                (now.prefix_bytes.max(there), now.attempt, now.phase)
            };
            if phase == Phase::Done {
                return Ok((self.size_bytes, attempt));
            }
            if written > position {
                return Ok((written, attempt));
            }
            tokio::select! {
                ended = self.subscription.wait() => {
                    ended?;
                    return Ok((self.size_bytes, self.progress.borrow().attempt));
                }
                // The sender lives as long as the download, whose end is handled above.
                _ = self.progress.changed() => {}
                () = tokio::time::sleep_until(prioritize_at) => {
                    self.subscription.prioritize(position);
                    prioritize_at = Instant::now() + READ_TIMEOUT;
                }
            }
        }
    }

    /// Opens the file at its current location.
    pub(super) async fn open(&self) -> io::Result<File> {
        let mut missing = None;
        // The download may move the file between two attempts, but only towards the library.
        for _ in 0..2 {
            let ready = self.staging.ready(&self.digest, self.size_bytes);
            let places =
                [Some(self.staging.partial_path(&self.digest)), ready, Some(self.library.blob_path(&self.digest))];
            for path in places.into_iter().flatten() {
                match File::open(&path).await {
                    Ok(file) => return Ok(file),
                    Err(error) => missing = Some(error),
                }
            }
        }
        Err(missing.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }
}
