//! Sources in memory that do what a test tells them, and remember what they sent.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cairn_store::Digest;

use crate::{BlobSource, Body, Opened, Pending, SourceError};

/// What a source answers to one request.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// Where it says that its bytes begin.
    pub(crate) offset: u64,
    /// Which bytes of its contents it sends.
    pub(crate) sent: Range<u64>,
    /// What comes then.
    pub(crate) then: Then,
    /// Bytes at a time.
    pub(crate) chunk: usize,
    /// Time before each chunk.
    pub(crate) pace: Duration,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    End,
    Break,
    Hang,
}

impl Answer {
    /// What was asked for.
    pub(crate) fn good(asked: &Range<u64>) -> Self {
        Self { offset: asked.start, sent: asked.clone(), then: Then::End, chunk: 16 << 10, pace: Duration::ZERO }
    }
}

type Script = dyn FnMut(usize, &Range<u64>) -> Result<Answer, SourceError> + Send;

/// A source with a script.
pub(crate) struct Fake {
    host: String,
    contents: Bytes,
    script: Mutex<Box<Script>>,
    opened: AtomicUsize,
    /// Bytes that were handed over.
    sent_bytes: Arc<AtomicU64>,
}

impl Fake {
    /// A source that does what it should.
    pub(crate) fn good(host: &str, contents: &[u8]) -> Arc<Self> {
        Self::scripted(host, contents, |_, asked| Ok(Answer::good(asked)))
    }

    /// One that is told the number of each request, from 0, and the range that it asks for.
    pub(crate) fn scripted(
        host: &str,
        contents: &[u8],
        script: impl FnMut(usize, &Range<u64>) -> Result<Answer, SourceError> + Send + 'static,
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

impl BlobSource for Fake {
    fn host(&self) -> &str {
        &self.host
    }

    fn open<'a>(&'a self, _: &'a Digest, _: u64, asked: Range<u64>) -> Pending<'a, Result<Opened, SourceError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let number = self.opened.fetch_add(1, Ordering::SeqCst);
            let answer = self.script.lock().unwrap()(number, &asked)?;
            let body = FakeBody {
                host: self.host.clone(),
                left: answer.sent.clone(),
                contents: self.contents.clone(),
                sent_bytes: Arc::clone(&self.sent_bytes),
                answer: answer.clone(),
            };
            Ok(Opened { offset: answer.offset, body: Box::new(body) })
        })
    }
}

struct FakeBody {
    host: String,
    left: Range<u64>,
    contents: Bytes,
    sent_bytes: Arc<AtomicU64>,
    answer: Answer,
}

impl Body for FakeBody {
    fn next(&mut self) -> Pending<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            if self.answer.pace > Duration::ZERO {
                tokio::time::sleep(self.answer.pace).await;
            } else {
                tokio::task::yield_now().await;
            }
            let end = self.left.end.min(self.left.start + self.answer.chunk as u64).min(self.contents.len() as u64);
            if self.left.start >= end {
                return match self.answer.then {
                    Then::End => Ok(None),
                    Then::Break => Err(broken(&self.host)),
                    Then::Hang => std::future::pending().await,
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
