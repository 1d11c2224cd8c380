//! Rate limit in bytes per second, shared by all streams.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Maximum burst after a pause. It compensates for late timers.
const BURST: Duration = Duration::from_millis(50);
/// Minimum number of steps per second of a stream. At a low limit the steps are small, so that a change of the limit takes
/// effect soon.
const STEPS_PER_S: u64 = 20;

/// Token bucket, stored as the time at which the next byte may pass.
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

    /// Sets or removes the limit.
    pub(crate) fn set(&self, bytes_per_s: Option<u64>) {
        *self.0.lock() = State { bytes_per_s, next: None };
    }

    /// The limit, if set.
    pub(super) fn bytes_per_s(&self) -> Option<u64> {
        self.0.lock().bytes_per_s
    }

    /// Waits until `bytes` may pass.
    pub(crate) async fn pass(&self, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let Some((step, due)) = self.reserve(left) else { return };
            tokio::time::sleep_until(due).await;
            left -= step;
        }
    }

    /// Reserves the next step: the number of bytes and the time. `None` without a limit.
    fn reserve(&self, bytes: u64) -> Option<(u64, Instant)> {
        let mut state = self.0.lock();
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

    /// Bytes that eight greedy streams transfer in ten seconds.
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
    async fn limit_applies_to_all_streams_together() {
        check(1_000_000, 16 << 10).await;
        check(20_000_000, 1 << 20).await;
        check(100_000, 1000).await;
    }

    #[tokio::test(start_paused = true)]
    async fn limit_change_takes_effect_at_once() {
        let throttle = Arc::new(Throttle::new(None));
        let begun = Instant::now();
        throttle.pass(1 << 40).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "no wait without a limit");
        throttle.set(Some(1000));
        throttle.pass(500).await;
        assert!(begun.elapsed() >= Duration::from_millis(450), "the limit applies");
        throttle.set(None);
        throttle.pass(1 << 40).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "the limit is removed");
    }
}
