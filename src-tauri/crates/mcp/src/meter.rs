//! The amount that a server sends, with a bound.
//!
//! The protocol's library reads whatever arrives: a server that sends notifications or requests without end would use memory and
//! processor time as long as it runs. The bytes and messages between the starts of two requests therefore have a bound. A server
//! above it is treated like one that closed its output.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;

use crate::limits::{MAX_EXCHANGE_BYTES, MAX_EXCHANGE_MESSAGES, MAX_MESSAGE_BYTES};

/// A limit that a server exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// A message is too long.
    #[error("a message is longer than {MAX_MESSAGE_BYTES} bytes")]
    Message,
    /// All messages together are too long.
    #[error("more than {MAX_EXCHANGE_BYTES} bytes for one request")]
    Bytes,
    /// There are too many messages.
    #[error("more than {MAX_EXCHANGE_MESSAGES} messages for one request")]
    Messages,
}

/// Counts what a server sends.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bytes: AtomicU64,
    messages: AtomicU64,
    excess: watch::Sender<Option<Excess>>,
}

impl Meter {
    /// Begins a request. An excess stays: the server is not used again.
    pub(crate) fn begin(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.messages.store(0, Ordering::Relaxed);
    }

    /// Counts bytes and ended messages.
    pub(crate) fn count(&self, bytes: usize, messages: u64) -> Result<(), Excess> {
        let all_bytes = self.bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        let all_messages = self.messages.fetch_add(messages, Ordering::Relaxed) + messages;
        match () {
            () if all_bytes > MAX_EXCHANGE_BYTES => Err(self.exceed(Excess::Bytes)),
            () if all_messages > MAX_EXCHANGE_MESSAGES => Err(self.exceed(Excess::Messages)),
            () => self.excess().map_or(Ok(()), Err),
        }
    }

    pub(crate) fn exceed(&self, excess: Excess) -> Excess {
        self.excess.send_if_modified(|first| match first {
            Some(_) => false,
            None => {
                *first = Some(excess);
                true
            }
        });
        excess
    }

    /// The first limit that the server exceeded.
    pub(crate) fn excess(&self) -> Option<Excess> {
        *self.excess.borrow()
    }

    /// Returns when the server exceeded a limit.
    pub(crate) async fn exceeded(&self) {
        let mut excess = self.excess.subscribe();
        // The sender lives as long as this borrow.
        let _ = excess.wait_for(Option::is_some).await;
    }
}

/// The output of a program, one message per line. Ends at the first limit that the program exceeds.
pub(crate) struct MeteredReader<R> {
    inner: R,
    meter: Arc<Meter>,
    /// Bytes of the line in progress.
    line_bytes: usize,
}

impl<R> MeteredReader<R> {
    pub(crate) fn new(inner: R, meter: Arc<Meter>) -> Self {
        Self { inner, meter, line_bytes: 0 }
    }

    fn observe(&mut self, bytes: &[u8]) -> Result<(), Excess> {
        let mut lines = 0;
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line_bytes += part.len();
            if self.line_bytes > MAX_MESSAGE_BYTES {
                return Err(self.meter.exceed(Excess::Message));
            }
            if part.ends_with(b"\n") {
                lines += 1;
                self.line_bytes = 0;
            }
        }
        self.meter.count(bytes.len(), lines)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for MeteredReader<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        if this.meter.excess().is_some() {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        if this.observe(&buf.filled()[before..]).is_err() {
            // A read without bytes is the end of the output.
            buf.set_filled(before);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn read(bytes: &[u8]) -> (usize, Option<Excess>) {
        let meter = Arc::new(Meter::default());
        let mut reader = MeteredReader::new(bytes, Arc::clone(&meter));
        let mut read = Vec::new();
        reader.read_to_end(&mut read).await.unwrap();
        (read.len(), meter.excess())
    }

    #[tokio::test]
    async fn output_within_limits_is_read_unchanged() {
        let lines = b"{}\n".repeat(MAX_EXCHANGE_MESSAGES as usize);
        assert_eq!(read(&lines).await, (lines.len(), None), "as many messages as are allowed");
        let mut long = vec![b' '; MAX_MESSAGE_BYTES - 1];
        long.push(b'\n');
        assert_eq!(read(&long).await, (long.len(), None), "the longest message");
    }

    #[tokio::test]
    async fn output_ends_at_each_limit() {
        let (length, excess) = read(&b"\n".repeat(MAX_EXCHANGE_MESSAGES as usize + 1)).await;
        assert_eq!(excess, Some(Excess::Messages));
        assert!(length <= MAX_EXCHANGE_MESSAGES as usize, "{length} bytes");
        let (length, excess) = read(&vec![b' '; MAX_MESSAGE_BYTES + 1]).await;
        assert_eq!(excess, Some(Excess::Message));
        assert!(length <= MAX_MESSAGE_BYTES, "{length} bytes");
        let mut line = vec![b' '; MAX_MESSAGE_BYTES - 1];
        line.push(b'\n');
        assert_eq!(read(&line.repeat(5)).await.1, Some(Excess::Bytes));
    }

    #[test]
    fn excess_stays_after_next_request_begins() {
        let meter = Meter::default();
        assert_eq!(meter.count(1, MAX_EXCHANGE_MESSAGES + 1), Err(Excess::Messages));
        meter.begin();
        assert_eq!(meter.count(1, 1), Err(Excess::Messages));
    }
}
