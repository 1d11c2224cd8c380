//! A part of a blob on its way out: read from the file as fast as the connection takes it, with its MD5 beside, because
//! that is what object stores know parts by.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use cairn_store::Digest;
use md5::{Digest as _, Md5};
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

use super::{PushError, PushStep, PushWatcher};
use crate::SourceError;
use crate::client::{Answer, Registry};

/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks that wait for the connection.
const WAITING_CHUNKS: usize = 4;

/// A blob of the library.
#[derive(Debug, Clone)]
pub(super) struct Blob {
    pub(super) digest: Digest,
    pub(super) size_bytes: u64,
    pub(super) path: PathBuf,
}

/// A part of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Part {
    /// A blob cut into sixteenths of at least and at most so many bytes.
    pub(super) fn all(size_bytes: u64, min_bytes: u64, max_bytes: u64) -> Vec<Self> {
        let length = (size_bytes / 16).clamp(min_bytes.max(1), max_bytes.max(min_bytes).max(1));
        let starts = (0..size_bytes.div_ceil(length)).map(|index| index * length);
        starts.map(|start| Self { start, end: (start + length).min(size_bytes) }).collect()
    }
}

/// How much of a blob has been sent, told as it grows. A part that is sent again does not take back what was told.
#[derive(Clone)]
pub(super) struct Meter {
    blob: Blob,
    watcher: PushWatcher,
    sent_bytes: Arc<AtomicU64>,
    told_bytes: Arc<AtomicU64>,
}

impl Meter {
    pub(super) fn new(blob: &Blob, watcher: &PushWatcher) -> Self {
        Self {
            blob: blob.clone(),
            watcher: Arc::clone(watcher),
            sent_bytes: Arc::default(),
            told_bytes: Arc::default(),
        }
    }

    /// All of it is there.
    pub(super) fn finish(&self) {
        self.tell(self.blob.size_bytes);
    }

    fn add(&self, bytes: u64) {
        self.tell(self.sent_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes);
    }

    /// Takes back what a failed try had sent.
    pub(super) fn take_back(&self, bytes: u64) {
        self.sent_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn tell(&self, sent_bytes: u64) {
        let sent_bytes = sent_bytes.min(self.blob.size_bytes);
        if self.told_bytes.fetch_max(sent_bytes, Ordering::Relaxed) < sent_bytes || sent_bytes == 0 {
            let Blob { digest, size_bytes, .. } = self.blob;
            (self.watcher)(PushStep::Blob { digest, size_bytes, sent_bytes });
        }
    }
}

/// What became of sending a part.
pub(super) struct Sent {
    pub(super) answer: Answer,
    /// The MD5 of the part; `None` where the server answered before it had all of it.
    pub(super) md5: Option<[u8; 16]>,
    /// How much was handed to the connection.
    pub(super) bytes: u64,
}

/// What `send` sends where.
pub(super) struct Delivery<'a> {
    pub(super) registry: &'a Registry,
    pub(super) method: Method,
    pub(super) url: &'a Url,
    pub(super) headers: HeaderMap,
    pub(super) credentials: Option<&'a HeaderValue>,
    pub(super) part: Part,
}

/// Sends a part once. The server's time-out begins anew whenever the connection takes more.
pub(super) async fn send(delivery: Delivery<'_>, blob: &Blob, meter: &Meter) -> Result<Sent, PushError> {
    let Delivery { registry, method, url, mut headers, credentials, part } = delivery;
    headers.insert(CONTENT_LENGTH, (part.end - part.start).into());
    let flow = Arc::new(Flow::default());
    let (body, reader) = read(blob, part, meter.clone(), Arc::clone(&flow));
    let answer = registry.send_stream(method, url, &headers, credentials, body, &flow.taken_bytes).await;
    let md5 = match &answer {
        Ok(answer) if !answer.status().is_success() => {
            // The server wants no more of it. The connection may hold the reader up until the server closes it.
            flow.unwanted.store(true, Ordering::Relaxed);
            Ok(None)
        }
        // Whatever came of it, the connection has nothing more to ask of the reader.
        _ => reader.await.expect("reading a file does not panic"),
    };
    let bytes = flow.taken_bytes.load(Ordering::Relaxed);
    match (answer, md5) {
        // A file that cannot be read also breaks the connection; the file is the reason.
        (_, Err(error)) => {
            meter.take_back(bytes);
            Err(PushError::Blob { digest: blob.digest, reason: error.to_string() })
        }
        (Ok(answer), Ok(md5)) => Ok(Sent { answer, md5, bytes }),
        (Err(error), Ok(_)) => {
            meter.take_back(bytes);
            Err(SourceError::into(error))
        }
    }
}

/// A body between its reader and its connection.
#[derive(Default)]
struct Flow {
    taken_bytes: AtomicU64,
    /// Set where the rest need not be read.
    unwanted: AtomicBool,
}

/// A body that reads a part of a file, and the part's MD5 when it was read to its end.
fn read(
    blob: &Blob,
    part: Part,
    meter: Meter,
    flow: Arc<Flow>,
) -> (reqwest::Body, JoinHandle<io::Result<Option<[u8; 16]>>>) {
    let (chunks, waiting) = mpsc::channel::<io::Result<Bytes>>(WAITING_CHUNKS);
    let path = blob.path.clone();
    let reader = tokio::task::spawn_blocking(move || {
        let read = || -> io::Result<Option<[u8; 16]>> {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(part.start))?;
            let mut md5 = Md5::new();
            let mut left = part.end - part.start;
            while left > 0 {
                let mut chunk = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_BYTES)];
                file.read_exact(&mut chunk)?;
                md5.update(&chunk);
                let length = chunk.len() as u64;
                left -= length;
                if chunks.blocking_send(Ok(chunk.into())).is_err() || flow.unwanted.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                flow.taken_bytes.fetch_add(length, Ordering::Relaxed);
                meter.add(length);
            }
            Ok(Some(md5.finalize().into()))
        };
        let outcome = read();
        if let Err(error) = &outcome {
            // The connection must not wait for the rest; whether it still listens does not matter.
            let _ = chunks.blocking_send(Err(error.kind().into()));
        }
        outcome
    });
    (reqwest::Body::wrap_stream(ReceiverStream::new(waiting)), reader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let check = |size: u64, min: u64, max: u64, expected: &[(u64, u64)]| {
            let parts: Vec<_> = Part::all(size, min, max).iter().map(|part| (part.start, part.end)).collect();
            assert_eq!(parts, expected, "{size} bytes in parts of {min} to {max}");
        };
        check(0, 10, 20, &[]);
        check(5, 10, 20, &[(0, 5)]);
        check(25, 10, 20, &[(0, 10), (10, 20), (20, 25)]);
        check(100, 10, 20, &[0, 10, 20, 30, 40, 50, 60, 70, 80, 90].map(|start| (start, start + 10)));
        check(1, 0, 0, &[(0, 1)]);
        assert_eq!(Part::all(16 * 300, 100, 1000).len(), 16, "sixteenths");
        assert_eq!(Part::all(100_000, 100, 1000).len(), 100, "of at most so many bytes");
    }
}
