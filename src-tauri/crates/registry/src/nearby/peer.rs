//! A discovered peer as a blob source.
//!
//! A peer on the local network should answer quickly. One that is silent or slow is dropped for this download, with much
//! shorter timeouts than an origin on the internet.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use cairn_store::Digest;
use tokio::time::{Instant, timeout};

use super::Counts;
use crate::client::Clock;
use crate::{BlobSource, Body, BoxFuture, RangeResponse, SourceError};

/// Timeout for a response and for each read.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval of the speed check, and the minimum number of bytes in it: a home internet connection is faster.
const SPEED_WINDOW: Duration = Duration::from_secs(5);
const MIN_WINDOW_BYTES: u64 = 1 << 20;

/// Blobs of a peer. Counts the received bytes.
pub(super) struct PeerBlobs {
    inner: Arc<dyn BlobSource>,
    counts: Arc<Counts>,
    clock: Clock,
}

impl PeerBlobs {
    pub(super) fn new(inner: Arc<dyn BlobSource>, counts: Arc<Counts>, clock: Clock) -> Self {
        Self { inner, counts, clock }
    }
}

impl BlobSource for PeerBlobs {
    fn host(&self) -> &str {
        self.inner.host()
    }

    fn open<'a>(
        &'a self,
        digest: &'a Digest,
        size_bytes: u64,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<RangeResponse, SourceError>> {
        Box::pin(async move {
            let host = || self.host().to_owned();
            let opened = match timeout(READ_TIMEOUT, self.inner.open(digest, size_bytes, range)).await {
                Ok(Ok(opened)) => opened,
                // Report every failure as absent, so that the download does not retry this peer.
                Ok(Err(_)) | Err(_) => return Err(SourceError::Absent { host: host() }),
            };
            let RangeResponse { offset, body } = opened;
            let (counts, clock) = (Arc::clone(&self.counts), Arc::clone(&self.clock));
            let body = PeerBody { body, counts, clock, host: host(), waited: Duration::ZERO, window_bytes: 0 };
            Ok(RangeResponse { offset, body: Box::new(body) })
        })
    }
}

struct PeerBody {
    body: Box<dyn Body>,
    counts: Arc<Counts>,
    clock: Clock,
    host: String,
    /// Time spent waiting since the last speed check, and bytes received in that time.
    waited: Duration,
    window_bytes: u64,
}

impl Body for PeerBody {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let started = Instant::now();
            let slow = || SourceError::Absent { host: self.host.clone() };
            let more = timeout(READ_TIMEOUT, self.body.next()).await.map_err(|_| slow())?;
            let Some(bytes) = more? else { return Ok(None) };
            self.counts.received_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            self.counts.set_seen((self.clock)());
            // Count only the time spent waiting for the peer, not the time between reads.
            self.waited += started.elapsed();
            self.window_bytes += bytes.len() as u64;
            if self.waited >= SPEED_WINDOW {
                if self.window_bytes < MIN_WINDOW_BYTES {
                    return Err(slow());
                }
                (self.waited, self.window_bytes) = (Duration::ZERO, 0);
            }
            Ok(Some(bytes))
        })
    }
}
