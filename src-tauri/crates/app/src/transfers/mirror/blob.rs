//! Reads the bytes of a blob for a client, from a complete file or from one that is being downloaded.
//!
//! A growing file is opened once and read as far as the download reports it as written. A reader that has waited for a
//! while asks the download for bytes at its position. The open file stays valid when the download moves it. If the
//! download restarts because the data was wrong, the reader fails: it has already returned wrong bytes.

use std::io::{self, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::transfers::downloading_blob::DownloadingBlob;
use crate::transfers::share::SharedBlob;

/// Bytes per read.
const READ_BYTES: u64 = 256 << 10;

/// A blob for a client.
pub struct BlobBytes {
    size_bytes: u64,
    from: From,
}

enum From {
    File(PathBuf),
    DownloadingBlob(Box<DownloadingBlob>),
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
        Self { size_bytes: downloading.size_bytes(), from: From::DownloadingBlob(Box::new(downloading)) }
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
            let available = downloading.beyond(self.left.start).await;
            let (written, attempt) = available.map_err(|error| io::Error::other(error.to_string()))?;
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
