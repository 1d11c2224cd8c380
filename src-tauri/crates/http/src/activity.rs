//! Count of active requests, for the shutdown of an idle daemon.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Counter of requests in progress, with the time of the last end. Clones share one counter.
#[derive(Debug, Clone)]
pub struct Activity(Arc<Mutex<Count>>);

#[derive(Debug)]
struct Count {
    in_progress: u64,
    last_end: Instant,
}

/// Guard of one request in progress. Dropping it ends the request.
#[derive(Debug)]
pub struct ActivityGuard(Activity);

impl Activity {
    /// Creates a counter with no requests in progress. The idle time starts at `now`.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(Count { in_progress: 0, last_end: now })))
    }

    /// Counts a request until the guard is dropped.
    #[must_use]
    pub fn begin(&self) -> ActivityGuard {
        self.with(|count| count.in_progress += 1);
        ActivityGuard(self.clone())
    }

    /// Number of requests in progress.
    #[must_use]
    pub fn in_progress(&self) -> u64 {
        self.with(|count| count.in_progress)
    }

    /// Time since the last request ended, at `now`. Zero while a request is in progress.
    #[must_use]
    pub fn idle(&self, now: Instant) -> Duration {
        self.with(|count| match count.in_progress {
            0 => now.saturating_duration_since(count.last_end),
            _ => Duration::ZERO,
        })
    }

    fn with<T>(&self, access: impl FnOnce(&mut Count) -> T) -> T {
        access(&mut self.0.lock())
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.0.with(|count| {
            count.in_progress -= 1;
            count.last_end = Instant::now();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_starts_at_the_last_request_end() {
        let start = Instant::now();
        let activity = Activity::new(start);
        let later = start + Duration::from_secs(100);
        assert_eq!(activity.idle(later), Duration::from_secs(100), "no request yet");
        let (first, second) = (activity.begin(), activity.begin());
        drop(first);
        assert_eq!(activity.idle(later), Duration::ZERO, "one request is in progress");
        drop(second);
        let idle = activity.idle(later);
        assert!(
            idle > Duration::from_secs(90) && idle < Duration::from_secs(100),
            "{idle:?} since the last request ended"
        );
    }
}
