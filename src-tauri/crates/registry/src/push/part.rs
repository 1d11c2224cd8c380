//! Upload of one part of a blob. The part is streamed from the file; its MD5 is computed for the object store's etag.

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
use crate::client::{Registry, RegistryResponse};

/// Size of a read.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks queued for the connection.
const WAITING_CHUNKS: usize = 4;

/// A blob of the library.
#[derive(Debug, Clone)]
pub(super) struct Blob {
    pub(super) digest: Digest,
    pub(super) size_bytes: u64,
    pub(super) path: PathBuf,
}

/// A byte range of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Part {
    /// Splits a blob into sixteenths, limited to `min_bytes` and `max_bytes`.
    pub(super) fn all(size_bytes: u64, min_bytes: u64, max_bytes: u64) -> Vec<Self> {
        let length = (size_bytes / 16).clamp(min_bytes.max(1), max_bytes.max(min_bytes).max(1));
        let starts = (0..size_bytes.div_ceil(length)).map(|index| index * length);
        starts.map(|start| Self { start, end: (start + length).min(size_bytes) }).collect()
    }
}

/// Reports the progress of a blob's upload. Retries of a part never decrease the reported value.
#[derive(Clone)]
pub(super) struct ProgressMeter {
    blob: Blob,
    watcher: PushWatcher,
    sent_bytes: Arc<AtomicU64>,
    reported_bytes: Arc<AtomicU64>,
}

impl ProgressMeter {
    pub(super) fn new(blob: &Blob, watcher: &PushWatcher) -> Self {
        Self {
            blob: blob.clone(),
            watcher: Arc::clone(watcher),
            sent_bytes: Arc::default(),
            reported_bytes: Arc::default(),
        }
    }

    /// Reports the whole blob as uploaded.
    pub(super) fn finish(&self) {
        self.report(self.blob.size_bytes);
    }

    fn add(&self, bytes: u64) {
        self.report(self.sent_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes);
    }

    /// Subtracts the bytes of a failed attempt.
    pub(super) fn subtract(&self, bytes: u64) {
        self.sent_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn report(&self, sent_bytes: u64) {
        let sent_bytes = sent_bytes.min(self.blob.size_bytes);
        if self.reported_bytes.fetch_max(sent_bytes, Ordering::Relaxed) < sent_bytes || sent_bytes == 0 {
            let Blob { digest, size_bytes, .. } = self.blob;
            (self.watcher)(PushStep::Blob { digest, size_bytes, sent_bytes });
        }
    }
}

/// The response to an uploaded part.
pub(super) struct PartResponse {
    pub(super) response: RegistryResponse,
    /// MD5 of the part. `None` if the server responded before it received the whole part.
    pub(super) md5: Option<[u8; 16]>,
    /// Bytes sent over the connection.
    pub(super) bytes: u64,
}

/// A request that uploads a part.
pub(super) struct PartRequest<'a> {
    pub(super) registry: &'a Registry,
    pub(super) method: Method,
    pub(super) url: &'a Url,
    pub(super) headers: HeaderMap,
    pub(super) credentials: Option<&'a HeaderValue>,
    pub(super) part: Part,
}

/// Sends a part once. The response timeout restarts whenever the connection accepts more bytes.
pub(super) async fn send(
    request: PartRequest<'_>,
    blob: &Blob,
    meter: &ProgressMeter,
) -> Result<PartResponse, PushError> {
    let PartRequest { registry, method, url, mut headers, credentials, part } = request;
    headers.insert(CONTENT_LENGTH, (part.end - part.start).into());
    let body_state = Arc::new(BodyState::default());
    let (body, reader) = read(blob, part, meter.clone(), Arc::clone(&body_state));
    let response = registry.send_stream(method, url, &headers, credentials, body, &body_state.taken_bytes).await;
    let md5 = match &response {
        Ok(response) if !response.status().is_success() => {
            // The server rejects the rest. The reader may be blocked until the server closes the connection.
            body_state.is_cancelled.store(true, Ordering::Relaxed);
            Ok(None)
        }
        // The connection reads no more, so the reader ends.
        _ => reader.await.expect("the task that reads the file does not panic"),
    };
    let bytes = body_state.taken_bytes.load(Ordering::Relaxed);
    match (response, md5) {
        // A read error of the file also aborts the connection; report the read error.
        (_, Err(error)) => {
            meter.subtract(bytes);
            Err(PushError::Blob { digest: blob.digest, reason: error.to_string() })
        }
        (Ok(response), Ok(md5)) => Ok(PartResponse { response, md5, bytes }),
        (Err(error), Ok(_)) => {
            meter.subtract(bytes);
            Err(SourceError::into(error))
        }
    }
}

/// State shared by the reader of a body and its connection.
#[derive(Default)]
struct BodyState {
    taken_bytes: AtomicU64,
    /// The rest of the body is not needed.
    is_cancelled: AtomicBool,
}

/// Creates a body that streams a part of a file, and a task that returns the MD5 if the part was read completely.
fn read(
    blob: &Blob,
    part: Part,
    meter: ProgressMeter,
    body_state: Arc<BodyState>,
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
                if chunks.blocking_send(Ok(chunk.into())).is_err() || body_state.is_cancelled.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                body_state.taken_bytes.fetch_add(length, Ordering::Relaxed);
                meter.add(length);
            }
            Ok(Some(md5.finalize().into()))
        };
        let outcome = read();
        if let Err(error) = &outcome {
            // End the body with an error. The connection may be closed already; that is not an error.
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
    fn blob_is_split_into_limited_sixteenths() {
        let check = |size: u64, min: u64, max: u64, expected: &[(u64, u64)]| {
            let parts: Vec<_> = Part::all(size, min, max).iter().map(|part| (part.start, part.end)).collect();
            assert_eq!(parts, expected, "{size} bytes in parts of {min} to {max}");
        };
        check(0, 10, 20, &[]);
        check(5, 10, 20, &[(0, 5)]);
        check(25, 10, 20, &[(0, 10), (10, 20), (20, 25)]);
        check(100, 10, 20, &[0, 10, 20, 30, 40, 50, 60, 70, 80, 90].map(|start| (start, start + 10)));
        check(1, 0, 0, &[(0, 1)]);
        assert_eq!(Part::all(16 * 300, 100, 1000).len(), 16, "a sixteenth each");
        assert_eq!(Part::all(100_000, 100, 1000).len(), 100, "limited by the maximum");
    }
}
