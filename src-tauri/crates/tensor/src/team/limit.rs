//! How many threads of a team compute a short step while other threads use its cores.
//!
//! The threads of a region wait for each other hundreds of times in a step. If another thread takes one of the cores, the
//! whole team waits until it gets the core back. With one thread less, each thread has a core for itself. Long steps keep
//! all threads, because a wait is short beside their ops.
//!
//! Every [`INTERVAL`], the time that the cores were busy is compared with the time that the team used. The difference is the
//! load by others: other programs, and other threads of this process.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Interval of samples. The system counts in units of 10 ms.
const INTERVAL: Duration = Duration::from_millis(200);
/// A longer interval contains an idle time of the team, so the last sample is useless.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// A team gets a thread more if at least this share of another core is free,
const ENOUGH_TO_ADD: f64 = 0.65;
/// and keeps it as long as this share is free.
const ENOUGH_TO_KEEP: f64 = 0.5;

/// The number of threads for short steps.
#[derive(Debug)]
pub(super) struct ThreadLimit {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    threads: usize,
    last: Option<Sample>,
}

/// Times since some start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) at: Instant,
    /// Time for which the cores were busy.
    pub(super) busy: Duration,
    /// CPU time of the team.
    pub(super) own: Duration,
}

impl ThreadLimit {
    pub(super) fn new(threads: usize) -> Self {
        Self { state: Mutex::new(State { threads, last: None }) }
    }

    /// Returns the number of threads for a step that starts `now`, of a team with `threads` threads and `cores` cores.
    /// `sample` is called if the last sample is old.
    pub(super) fn threads(
        &self,
        now: Instant,
        [threads, cores]: [usize; 2],
        sample: impl FnOnce() -> Option<Sample>,
    ) -> usize {
        let mut state = self.state.lock();
        let elapsed = state.last.map(|last| now.duration_since(last.at));
        if elapsed.is_some_and(|elapsed| elapsed < INTERVAL) {
            return state.threads;
        }
        let sample = sample();
        state.threads = match state.last.zip(sample) {
            Some((last, sample)) if elapsed.is_some_and(|elapsed| elapsed <= MAX_INTERVAL) => {
                let busy = sample.busy.saturating_sub(last.busy);
                let others = busy.saturating_sub(sample.own.saturating_sub(last.own));
                let others = others.as_secs_f64() / sample.at.duration_since(last.at).as_secs_f64();
                next_threads(state.threads, [threads, cores], others)
            }
            _ => threads,
        };
        state.last = sample;
        state.threads
    }
}

/// Returns the next number of threads if other threads occupy `others` cores.
fn next_threads(current: usize, [threads, cores]: [usize; 2], others: f64) -> usize {
    let free = (cores as f64 - others).max(0.0);
    let fitting = |enough: f64| (free + 1.0 - enough) as usize;
    let (added, kept) = (fitting(ENOUGH_TO_ADD), fitting(ENOUGH_TO_KEEP));
    current.clamp(added.min(kept), kept).clamp(1, threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_follow_the_load_by_others() {
        for (current, shape, others, expected) in [
            (2, [2, 2], 0.0, 2),
            (2, [2, 2], 0.45, 2),
            (2, [2, 2], 0.55, 1),
            (1, [2, 2], 0.45, 1),
            (1, [2, 2], 0.3, 2),
            (1, [2, 2], 1.9, 1),
            (2, [2, 2], 5.0, 1),
            (16, [16, 16], 0.4, 16),
            (16, [16, 16], 3.2, 13),
            (13, [16, 16], 0.1, 16),
            (4, [4, 8], 3.9, 4),
            (4, [4, 8], 5.0, 3),
            (1, [1, 1], 3.0, 1),
        ] {
            assert_eq!(next_threads(current, shape, others), expected, "{current} of {shape:?}, others {others}");
        }
    }

    #[test]
    fn limit_is_lifted_after_an_idle_time_and_without_samples() {
        let limit = ThreadLimit::new(2);
        let start = Instant::now();
        // Both cores are busy, and the team has used one of them.
        let at = |ms: u64| {
            let now = start + Duration::from_millis(ms);
            let sample = Sample { at: now, busy: Duration::from_millis(2 * ms), own: Duration::from_millis(ms) };
            limit.threads(now, [2, 2], || Some(sample))
        };
        assert_eq!([0, 100, 250, 300, 500].map(at), [2, 2, 1, 1, 1], "the load of an interval limits the next one");
        assert_eq!([2000, 2250].map(at), [2, 1], "the load before an idle time is unknown");
        assert_eq!(limit.threads(start + Duration::from_secs(9), [2, 2], || None), 2, "a system without samples");
    }
}
