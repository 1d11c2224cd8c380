//! Reads the bytes of a blob for a client, from a complete file or from one that is being downloaded.
//!
//! A growing file is opened once and read as far as the download reports it as written. A reader that has waited for a
//! while asks the download for bytes at its position. The open file stays valid when the download moves it. If the
//! download restarts because the data was wrong, the reader fails: it has already returned wrong bytes.

use std::io::{self, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cairn_registry::{BlobProgress, Phase, Subscription};
use cairn_store::{Digest, Library, Staging};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::transfers::share::SharedBlob;

/// Bytes per read.
const READ_BYTES: u64 = 256 << 10;

/// Wait without data after which the reader's position gets priority. Ollama's client gives up a part after 30 s.
const READ_TIMEOUT: Duration = Duration::from_secs(8);

/// A blob for a client.
pub struct BlobBytes {
    size_bytes: u64,
    from: From,
}

enum From {
    File(PathBuf),
    DownloadingBlob(Box<DownloadingBlob>),
}

/// A blob that is being downloaded. The subscription keeps the download running.
pub(super) struct DownloadingBlob {
    subscription: Subscription,
    progress: watch::Receiver<BlobProgress>,
    library: Library,
    staging: Staging,
    digest: Digest,
    size_bytes: u64,
}

/// A reader of a blob.
pub struct BlobReader {
    file: Option<File>,
    left: Range<u64>,
    from: From,
    /// The attempt of the download to which the file belongs.
    attempt: u32,
}

impl BlobBytes {
    pub(super) fn stored(blob: SharedBlob) -> Self {
        Self { size_bytes: blob.size_bytes, from: From::File(blob.path) }
    }

    pub(super) fn downloading(downloading: DownloadingBlob) -> Self {
        Self { size_bytes: downloading.size_bytes, from: From::DownloadingBlob(Box::new(downloading)) }
    }

    /// Size of the blob.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns a reader of a range of the blob.
    #[must_use]
    pub fn read(self, bytes: Range<u64>) -> BlobReader {
        BlobReader { file: None, left: bytes, from: self.from, attempt: 0 }
    }
}

impl BlobReader {
    /// Returns the next bytes as soon as they are available; `None` at the end of the range.
    ///
    /// # Errors
    /// If the file cannot be read, or the download fails.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let mut until = self.left.end;
        if let From::DownloadingBlob(downloading) = &mut self.from {
            let (written, attempt) = downloading.beyond(self.left.start).await?;
            if self.file.is_some() && attempt != self.attempt {
                return Err(io::Error::other("the download restarted because its data was wrong"));
            }
            self.attempt = attempt;
            until = until.min(written);
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut file = match &self.from {
                    From::File(path) => File::open(path).await?,
                    From::DownloadingBlob(downloading) => downloading.open().await?,
                };
                file.seek(SeekFrom::Start(self.left.start)).await?;
                none.insert(file)
            }
        };
        let want = (until - self.left.start).min(READ_BYTES);
        let mut piece = BytesMut::zeroed(usize::try_from(want).expect("a piece is small"));
        file.read_exact(&mut piece).await?;
        self.left.start += want;
        Ok(Some(piece.freeze()))
    }
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

    /// Waits for bytes at `position`. Returns the end of the available bytes, and the attempt of the download.
    async fn beyond(&mut self, position: u64) -> io::Result<(u64, u32)> {
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
                    ended.map_err(|error| io::Error::other(error.to_string()))?;
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
    async fn open(&self) -> io::Result<File> {
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
