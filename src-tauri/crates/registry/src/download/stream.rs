//! One stream: requests a range from a source and passes the bytes to the spool.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cairn_store::Digest;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::DownloadConfig;
use super::plan::Received;
use super::spool::Spool;
use super::state::{NextAction, RangeJob, State, StreamEnd};
use super::throttle::Throttle;
use crate::SourceError;

/// Maximum bytes before the requested range that are read and discarded.
const MAX_SKIPPED_BYTES: u64 = 1 << 20;

/// Shared data of the streams of a download.
pub(super) struct Shared {
    pub(super) digest: Digest,
    pub(super) size_bytes: u64,
    pub(super) state: Mutex<State>,
    pub(super) spool: Spool,
    pub(super) throttle: Arc<Throttle>,
    /// Maximum bytes that a stream passes on at once.
    pub(super) piece_bytes: usize,
    pub(super) config: Arc<DownloadConfig>,
    pub(super) started: Instant,
    /// Wakes idle streams after a change.
    pub(super) changed: Notify,
    /// Signals that the download is complete or has failed.
    pub(super) over: Notify,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Downloads one range after another, until the task is aborted.
pub(super) async fn work(shared: Arc<Shared>) {
    let mut avoid = None;
    loop {
        let changed = shared.changed.notified();
        let next = {
            let limit = shared.throttle.bytes_per_s();
            let mut state = shared.state();
            state.health.limit_bytes_per_s = limit;
            let next = state.next(shared.now(), avoid);
            if state.is_over() {
                shared.over.notify_one();
            }
            next
        };
        match next {
            NextAction::Wait(until) => {
                tokio::select! {
                    () = sleep_until(shared.started + until) => {}
                    () = changed => {}
                }
            }
            NextAction::Fetch(job) => {
                let end = fetch(&shared, &job).await;
                avoid = matches!(end, StreamEnd::Slow | StreamEnd::Stalled { .. }).then_some(job.source);
                let mut state = shared.state();
                state.ended(&job, &end, shared.now());
                if state.is_over() {
                    shared.over.notify_one();
                }
                drop(state);
                shared.changed.notify_waiters();
            }
        }
    }
}

async fn fetch(shared: &Shared, job: &RangeJob) -> StreamEnd {
    let stall = shared.config.stall_timeout;
    let opening = job.via.open(&shared.digest, shared.size_bytes, job.range.clone());
    let mut opened = match timeout(stall, opening).await {
        Err(_) => return StreamEnd::Stalled { silent: true },
        Ok(Err(error)) => return StreamEnd::Failed(error),
        Ok(Ok(opened)) => opened,
    };
    let broken = |answered: bool, reason: String| {
        StreamEnd::Failed(SourceError::Broken { host: job.via.host().to_owned(), reason, answered })
    };
    let mut at = opened.offset;
    if !job.whole && at == 0 && job.range.start > 0 {
        return StreamEnd::NoRanges;
    }
    if !job.whole && at.saturating_add(MAX_SKIPPED_BYTES) < job.range.start {
        return broken(true, format!("sent bytes from {at} instead of {}", job.range.start));
    }
    loop {
        let mut bytes = match timeout(stall, opened.body.next()).await {
            Err(_) => return StreamEnd::Stalled { silent: at == opened.offset },
            Ok(Err(error)) => return StreamEnd::Failed(error),
            Ok(Ok(None)) => return broken(false, format!("ended at byte {at} of {}", shared.size_bytes)),
            Ok(Ok(Some(bytes))) => bytes,
        };
        shared.throttle.pass(bytes.len() as u64).await;
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(shared.piece_bytes));
            let mut taken = take(shared, job, at, &piece).await;
            while let Received::Write { finished: true, .. } = taken {
                if !continues(shared, job) {
                    return StreamEnd::Done;
                }
                // The rest of the piece may belong to the next range.
                taken = take(shared, job, at, &piece).await;
            }
            at = at.saturating_add(piece.len() as u64);
            match taken {
                Received::Duplicate | Received::Write { .. } => {}
                Received::Reassigned => return StreamEnd::Done,
                Received::Gap { expected } => {
                    return broken(true, format!("sent bytes from {} instead of {expected}", opened.offset));
                }
            }
        }
        if shared.state().plan.is_slow(job.lease, shared.now()) {
            return StreamEnd::Slow;
        }
    }
}

/// Passes the missing part of these bytes to the spool, once the write budget allows it. Until then they do not count as
/// received, because a crash would lose them.
async fn take(shared: &Shared, job: &RangeJob, at: u64, bytes: &Bytes) -> Received {
    shared.spool.acquire(bytes.len()).await;
    let mut unused = bytes.len();
    let mut state = shared.state();
    let taken = state.take(job, at, bytes.len(), shared.now());
    if let Received::Write { skip, len, at, .. } = taken {
        // Write while the state is locked: when the plan is complete, the writer must have all bytes.
        shared.spool.write(at, bytes.slice(skip..skip + len));
        unused -= len;
    }
    drop(state);
    shared.spool.release(unused);
    taken
}

/// Whether a source without ranges continues with missing bytes. Another stream would receive everything again.
fn continues(shared: &Shared, job: &RangeJob) -> bool {
    let mut state = shared.state();
    let supports_ranges = state.health.sources.get(job.source).is_none_or(|source| source.supports_ranges);
    !supports_ranges && state.plan.extend(job.lease)
}
