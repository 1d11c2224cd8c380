//! The contents that one found machine has.
//!
//! It is near, so it answers at once or not at all: one that keeps silent, or sends a trickle, is left for this download,
//! and nothing waits for it as for an origin far away.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use cairn_store::Digest;
use tokio::time::{Instant, timeout};

use super::Counts;
use crate::client::Clock;
use crate::{BlobSource, Body, Opened, Pending, SourceError};

/// How long it may keep silent, before an answer and within one.
const PATIENCE: Duration = Duration::from_secs(5);
/// Over how long its speed is judged, and what is too little in that time: a home line brings more.
const JUDGED_OVER: Duration = Duration::from_secs(5);
const LEAST_BYTES: u64 = 1 << 20;

/// A machine's contents, counted.
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
    ) -> Pending<'a, Result<Opened, SourceError>> {
        Box::pin(async move {
            let host = || self.host().to_owned();
            let opened = match timeout(PATIENCE, self.inner.open(digest, size_bytes, range)).await {
                Ok(Ok(opened)) => opened,
                // Whatever it is, it is nothing to come back for: who needs the blob has others to ask.
                Ok(Err(_)) | Err(_) => return Err(SourceError::Absent { host: host() }),
            };
            let Opened { offset, body } = opened;
            let (counts, clock) = (Arc::clone(&self.counts), Arc::clone(&self.clock));
            let body = PeerBody { body, counts, clock, host: host(), waited: Duration::ZERO, came_bytes: 0 };
            Ok(Opened { offset, body: Box::new(body) })
        })
    }
}

struct PeerBody {
    body: Box<dyn Body>,
    counts: Arc<Counts>,
    clock: Clock,
    host: String,
    /// How long it was waited for since it was judged last, and what came in that time.
    waited: Duration,
    came_bytes: u64,
}

impl Body for PeerBody {
    fn next(&mut self) -> Pending<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let asked = Instant::now();
            let slow = || SourceError::Absent { host: self.host.clone() };
            let more = timeout(PATIENCE, self.body.next()).await.map_err(|_| slow())?;
            let Some(bytes) = more? else { return Ok(None) };
            self.counts.got_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            self.counts.seen((self.clock)());
            // Only the time that it took counts, and not that in which nobody took what it had.
            self.waited += asked.elapsed();
            self.came_bytes += bytes.len() as u64;
            if self.waited >= JUDGED_OVER {
                if self.came_bytes < LEAST_BYTES {
                    return Err(slow());
                }
                (self.waited, self.came_bytes) = (Duration::ZERO, 0);
            }
            Ok(Some(bytes))
        })
    }
}
