//! The bytes of a blob for a client: from a file that is whole, or from one that grows.
//!
//! A file that is being fetched is opened once, and read as far as the download says that it is written; a reader that has
//! waited for a while has a little fetched from where it waits. Where the file is moved
//! to when it is whole makes no difference to who has it open. Should what came turn out wrong, the answer breaks off: its
//! reader has bytes that are none of the blob's.

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

/// Bytes that are read at once.
const PIECE_BYTES: u64 = 256 << 10;

/// After how long without a byte a reader says that it waits. Ollama's client gives a part up after 30 s.
const WAITS_FOR: Duration = Duration::from_secs(8);

/// A blob that is given out.
pub struct BlobBytes {
    size_bytes: u64,
    from: From,
}

enum From {
    File(PathBuf),
    Arriving(Box<Arriving>),
}

/// A blob that is on its way, for as long as somebody reads it.
pub(super) struct Arriving {
    subscription: Subscription,
    progress: watch::Receiver<BlobProgress>,
    library: Library,
    staging: Staging,
    digest: Digest,
    size_bytes: u64,
}

/// A blob that is being read.
pub struct BlobReader {
    file: Option<File>,
    left: Range<u64>,
    from: From,
    /// Which attempt the file is of.
    attempt: u32,
}

impl BlobBytes {
    pub(super) fn stored(blob: SharedBlob) -> Self {
        Self { size_bytes: blob.size_bytes, from: From::File(blob.path) }
    }

    pub(super) fn arriving(arriving: Arriving) -> Self {
        Self { size_bytes: arriving.size_bytes, from: From::Arriving(Box::new(arriving)) }
    }

    /// Its length.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Some of its bytes, to be read one piece after the other.
    #[must_use]
    pub fn read(self, bytes: Range<u64>) -> BlobReader {
        BlobReader { file: None, left: bytes, from: self.from, attempt: 0 }
    }
}

impl BlobReader {
    /// The next bytes, when they are there; `None` after the last.
    ///
    /// # Errors
    /// When they cannot be read, or do not come.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let mut until = self.left.end;
        if let From::Arriving(arriving) = &mut self.from {
            let (written, attempt) = arriving.beyond(self.left.start).await?;
            if self.file.is_some() && attempt != self.attempt {
                return Err(io::Error::other("what came was not the blob"));
            }
            self.attempt = attempt;
            until = until.min(written);
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut file = match &self.from {
                    From::File(path) => File::open(path).await?,
                    From::Arriving(arriving) => arriving.open().await?,
                };
                file.seek(SeekFrom::Start(self.left.start)).await?;
                none.insert(file)
            }
        };
        let want = (until - self.left.start).min(PIECE_BYTES);
        let mut piece = BytesMut::zeroed(usize::try_from(want).expect("a piece is small"));
        file.read_exact(&mut piece).await?;
        self.left.start += want;
        Ok(Some(piece.freeze()))
    }
}

impl Arriving {
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

    /// Waits until there are bytes at `position`, and says up to where there are and in which attempt they came.
    async fn beyond(&mut self, position: u64) -> io::Result<(u64, u32)> {
        let mut wishes_at = Instant::now() + WAITS_FOR;
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
                // Its sender lives as long as the download does, whose end is heard above.
                _ = self.progress.changed() => {}
                () = tokio::time::sleep_until(wishes_at) => {
                    self.subscription.prioritize(position);
                    wishes_at = Instant::now() + WAITS_FOR;
                }
            }
        }
    }

    /// Opens the file, wherever it has come to.
    async fn open(&self) -> io::Result<File> {
        let mut missing = None;
        // It may be moved between two looks, and only ever towards the library.
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
