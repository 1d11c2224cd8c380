//! Whether anybody uses the daemon, so that it can end when nobody does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counts requests in progress and remembers when the last one ended. Clones share everything.
#[derive(Debug, Clone)]
pub struct Activity(Arc<Mutex<Count>>);

#[derive(Debug)]
struct Count {
    in_progress: u64,
    last_end: Instant,
}

/// A request in progress; it ends when this is dropped.
#[derive(Debug)]
pub struct Busy(Activity);

impl Activity {
    /// Nobody yet; the time without requests counts from `now`.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(Count { in_progress: 0, last_end: now })))
    }

    /// A request begins.
    #[must_use]
    pub fn begin(&self) -> Busy {
        self.with(|count| count.in_progress += 1);
        Busy(self.clone())
    }

    /// Requests in progress.
    #[must_use]
    pub fn in_progress(&self) -> u64 {
        self.with(|count| count.in_progress)
    }

    /// For how long there has been no request at `now`; zero while there is one.
    #[must_use]
    pub fn idle(&self, now: Instant) -> Duration {
        self.with(|count| match count.in_progress {
            0 => now.saturating_duration_since(count.last_end),
            _ => Duration::ZERO,
        })
    }

    fn with<T>(&self, look: impl FnOnce(&mut Count) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Busy {
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
    fn idle_time_counts_from_the_last_end() {
        let start = Instant::now();
        let activity = Activity::new(start);
        let later = start + Duration::from_secs(100);
        assert_eq!(activity.idle(later), Duration::from_secs(100), "nobody came");
        let (first, second) = (activity.begin(), activity.begin());
        drop(first);
        assert_eq!(activity.idle(later), Duration::ZERO, "one is still there");
        drop(second);
        let idle = activity.idle(later);
        assert!(idle > Duration::from_secs(90) && idle < Duration::from_secs(100), "{idle:?} since the last left");
    }
}
