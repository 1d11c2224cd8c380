//! A limit on bytes per second that all streams share.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What may be made up for after a pause: without it each late timer would cost speed.
const BURST: Duration = Duration::from_millis(50);
/// How many steps a second a stream takes at least: at a low limit they are small, so that nobody waits long for a turn
/// that a change of the limit would bring at once.
const STEPS_PER_S: u64 = 20;

/// A bucket of tokens, as the time at which the next byte may pass.
#[derive(Debug)]
pub(crate) struct Throttle(Mutex<State>);

#[derive(Debug)]
struct State {
    bytes_per_s: Option<u64>,
    next: Option<Instant>,
}

impl Throttle {
    pub(crate) fn new(bytes_per_s: Option<u64>) -> Self {
        Self(Mutex::new(State { bytes_per_s, next: None }))
    }

    /// Sets another limit, or none, from now on.
    pub(crate) fn set(&self, bytes_per_s: Option<u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = State { bytes_per_s, next: None };
    }

    /// The limit, where there is one.
    pub(super) fn bytes_per_s(&self) -> Option<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes_per_s
    }

    /// Waits until `bytes` more may pass.
    pub(crate) async fn pass(&self, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let Some((step, due)) = self.reserve(left) else { return };
            tokio::time::sleep_until(due).await;
            left -= step;
        }
    }

    /// How many of these bytes may pass next, and when; whoever comes next comes after them. `None` where there is no limit.
    fn reserve(&self, bytes: u64) -> Option<(u64, Instant)> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes_per_s = state.bytes_per_s?.max(1);
        let step = bytes.min((bytes_per_s / STEPS_PER_S).max(1));
        let now = Instant::now();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let start = state.next.map_or(now, |next| next.max(earliest));
        let due = start + Duration::from_secs_f64(step as f64 / bytes_per_s as f64);
        state.next = Some(due);
        Some((step, due))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Eight streams that would take all they can, for ten seconds.
    async fn passed(throttle: Arc<Throttle>, chunk: u64) -> u64 {
        let end = Instant::now() + Duration::from_secs(10);
        let mut streams = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let throttle = Arc::clone(&throttle);
            streams.spawn(async move {
                let mut passed = 0;
                while tokio::time::timeout_at(end, throttle.pass(chunk)).await.is_ok() {
                    passed += chunk;
                }
                passed
            });
        }
        streams.join_all().await.iter().sum()
    }

    async fn check(bytes_per_s: u64, chunk: u64) {
        let passed = passed(Arc::new(Throttle::new(Some(bytes_per_s))), chunk).await as f64 / 10.0;
        let error = (passed - bytes_per_s as f64).abs() / bytes_per_s as f64;
        assert!(error < 0.1, "{bytes_per_s} B/s in chunks of {chunk}: {passed} B/s passed");
    }

    #[tokio::test(start_paused = true)]
    async fn the_limit_holds_for_all_streams_together() {
        check(1_000_000, 16 << 10).await;
        check(20_000_000, 1 << 20).await;
        check(100_000, 1000).await;
    }

    #[tokio::test(start_paused = true)]
    async fn no_limit_is_none_and_a_change_counts_at_once() {
        let throttle = Arc::new(Throttle::new(None));
        let begun = Instant::now();
        throttle.pass(1 << 40).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "nothing waits");
        throttle.set(Some(1000));
        throttle.pass(500).await;
        assert!(begun.elapsed() >= Duration::from_millis(450), "half a second's worth");
        throttle.set(None);
        throttle.pass(1 << 40).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "the limit is gone");
    }
}
