//! Scripted in-memory blob sources for tests.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cairn_store::Digest;

use crate::{BlobSource, Body, BoxFuture, RangeResponse, SourceError};

/// The response of a fake source.
#[derive(Debug, Clone)]
pub(crate) struct FakeResponse {
    /// The reported offset.
    pub(crate) offset: u64,
    /// The sent byte range of the contents.
    pub(crate) sent: Range<u64>,
    /// What happens after the bytes.
    pub(crate) ending: Ending,
    /// Chunk size.
    pub(crate) chunk: usize,
    /// Delay before each chunk.
    pub(crate) pace: Duration,
}

/// How a response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    End,
    Break,
    Hang,
}

impl FakeResponse {
    /// The requested range.
    pub(crate) fn good(requested: &Range<u64>) -> Self {
        Self {
            offset: requested.start,
            sent: requested.clone(),
            ending: Ending::End,
            chunk: 16 << 10,
            pace: Duration::ZERO,
        }
    }
}

type Script = dyn FnMut(usize, &Range<u64>) -> Result<FakeResponse, SourceError> + Send;

/// A blob source that follows a script.
pub(crate) struct FakeSource {
    host: String,
    contents: Bytes,
    script: Mutex<Box<Script>>,
    opened: AtomicUsize,
    /// Bytes sent so far.
    sent_bytes: Arc<AtomicU64>,
}

impl FakeSource {
    /// A source that sends each requested range.
    pub(crate) fn good(host: &str, contents: &[u8]) -> Arc<Self> {
        Self::scripted(host, contents, |_, requested| Ok(FakeResponse::good(requested)))
    }

    /// A source with a script. The script gets the number of the request, from 0, and the requested range.
    pub(crate) fn scripted(
        host: &str,
        contents: &[u8],
        script: impl FnMut(usize, &Range<u64>) -> Result<FakeResponse, SourceError> + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            host: host.to_owned(),
            contents: Bytes::copy_from_slice(contents),
            script: Mutex::new(Box::new(script)),
            opened: AtomicUsize::new(0),
            sent_bytes: Arc::default(),
        })
    }

    pub(crate) fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::SeqCst)
    }
}

impl BlobSource for FakeSource {
    fn host(&self) -> &str {
        &self.host
    }

    fn open<'a>(
        &'a self,
        _: &'a Digest,
        _: u64,
        requested: Range<u64>,
    ) -> BoxFuture<'a, Result<RangeResponse, SourceError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let number = self.opened.fetch_add(1, Ordering::SeqCst);
            let answer = self.script.lock().unwrap()(number, &requested)?;
            let body = FakeBody {
                host: self.host.clone(),
                left: answer.sent.clone(),
                contents: self.contents.clone(),
                sent_bytes: Arc::clone(&self.sent_bytes),
                answer: answer.clone(),
            };
            Ok(RangeResponse { offset: answer.offset, body: Box::new(body) })
        })
    }
}

struct FakeBody {
    host: String,
    left: Range<u64>,
    contents: Bytes,
    sent_bytes: Arc<AtomicU64>,
    answer: FakeResponse,
}

impl Body for FakeBody {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            if self.answer.pace > Duration::ZERO {
                tokio::time::sleep(self.answer.pace).await;
            } else {
                tokio::task::yield_now().await;
            }
            let end = self.left.end.min(self.left.start + self.answer.chunk as u64).min(self.contents.len() as u64);
            if self.left.start >= end {
                return match self.answer.ending {
                    Ending::End => Ok(None),
                    Ending::Break => Err(broken(&self.host)),
                    Ending::Hang => std::future::pending().await,
                };
            }
            let bytes = self.contents.slice(self.left.start as usize..end as usize);
            self.left.start = end;
            self.sent_bytes.fetch_add(bytes.len() as u64, Ordering::SeqCst);
            Ok(Some(bytes))
        })
    }
}

pub(crate) fn broken(host: &str) -> SourceError {
    SourceError::Broken { host: host.to_owned(), reason: "connection reset".to_owned(), answered: false }
}
