//! One stream: asks a source for a range and hands on what comes, until it has all or something is wrong.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cairn_store::Digest;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::Config;
use super::plan::Taken;
use super::spool::Spool;
use super::state::{End, Job, Next, State};
use super::throttle::Throttle;
use crate::SourceError;

/// How far before what was asked for an answer may begin before it is not worth reading up to there.
const MOST_BEFORE_BYTES: u64 = 1 << 20;

/// What the streams of a download share.
pub(super) struct Shared {
    pub(super) digest: Digest,
    pub(super) size_bytes: u64,
    pub(super) state: Mutex<State>,
    pub(super) spool: Spool,
    pub(super) throttle: Arc<Throttle>,
    /// The most bytes that a stream hands on at once.
    pub(super) piece_bytes: usize,
    pub(super) config: Arc<Config>,
    pub(super) started: Instant,
    /// Something changed that an idle stream may wait for.
    pub(super) changed: Notify,
    /// There is nothing more to fetch, or no way to.
    pub(super) over: Notify,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Fetches one range after another. Never ends by itself.
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
            Next::Wait(until) => {
                tokio::select! {
                    () = sleep_until(shared.started + until) => {}
                    () = changed => {}
                }
            }
            Next::Fetch(job) => {
                let end = fetch(&shared, &job).await;
                avoid = matches!(end, End::Slow | End::Stalled { .. }).then_some(job.source);
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

async fn fetch(shared: &Shared, job: &Job) -> End {
    let stall = shared.config.stall;
    let opening = job.via.open(&shared.digest, shared.size_bytes, job.range.clone());
    let mut opened = match timeout(stall, opening).await {
        Err(_) => return End::Stalled { silent: true },
        Ok(Err(error)) => return End::Failed(error),
        Ok(Ok(opened)) => opened,
    };
    let broken = |answered: bool, reason: String| {
        End::Failed(SourceError::Broken { host: job.via.host().to_owned(), reason, answered })
    };
    let mut at = opened.offset;
    if !job.whole && at == 0 && job.range.start > 0 {
        return End::NoRanges;
    }
    if !job.whole && at.saturating_add(MOST_BEFORE_BYTES) < job.range.start {
        return broken(true, format!("answered from byte {at} where {} was asked for", job.range.start));
    }
    loop {
        let mut bytes = match timeout(stall, opened.body.next()).await {
            Err(_) => return End::Stalled { silent: at == opened.offset },
            Ok(Err(error)) => return End::Failed(error),
            Ok(Ok(None)) => return broken(false, format!("ended at byte {at} of {}", shared.size_bytes)),
            Ok(Ok(Some(bytes))) => bytes,
        };
        shared.throttle.pass(bytes.len() as u64).await;
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(shared.piece_bytes));
            let taken = take(shared, job, at, &piece).await;
            at = at.saturating_add(piece.len() as u64);
            match taken {
                Taken::Before | Taken::Write { finished: false, .. } => {}
                Taken::Write { .. } if continues(shared, job) => {}
                Taken::Write { .. } | Taken::Gone => return End::Done,
                Taken::Beyond { asked } => {
                    return broken(true, format!("answered from byte {} where {asked} was asked for", opened.offset));
                }
            }
        }
        if shared.state().plan.is_slow(job.lease, shared.now()) {
            return End::Slow;
        }
    }
}

/// Takes bytes that begin at `at`, as far as they are wanted, once there is room on the way to the disk. Until then they
/// count as not received, so that nothing is promised that a cut would lose.
async fn take(shared: &Shared, job: &Job, at: u64, bytes: &Bytes) -> Taken {
    shared.spool.pay(bytes.len()).await;
    let mut unwanted = bytes.len();
    let mut state = shared.state();
    let taken = state.take(job, at, bytes.len(), shared.now());
    if let Taken::Write { skip, len, at, .. } = taken {
        // While the state is locked: whoever sees that all is received finds it with the writer too.
        shared.spool.write(at, bytes.slice(skip..skip + len));
        unwanted -= len;
    }
    drop(state);
    shared.spool.refund(unwanted);
    taken
}

/// Whether the source goes on with bytes that are still missing, and would send all of it again to another stream.
fn continues(shared: &Shared, job: &Job) -> bool {
    let mut state = shared.state();
    let ranged = state.health.sources.get(job.source).is_none_or(|source| source.ranged);
    !ranged && state.plan.extend(job.lease)
}
