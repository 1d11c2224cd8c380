//! How fast bytes have come of late.

use std::collections::VecDeque;
use std::time::Duration;

/// Samples closer together than this are one.
const GRAIN: Duration = Duration::from_millis(50);

/// Bytes per second over the last moments. Times are since the download began.
#[derive(Debug, Clone)]
pub(super) struct Speed {
    window: Duration,
    since: Duration,
    samples: VecDeque<(Duration, u64)>,
}

impl Speed {
    pub(super) fn new(now: Duration, window: Duration) -> Self {
        Self { window, since: now, samples: VecDeque::new() }
    }

    pub(super) fn add(&mut self, now: Duration, bytes: u64) {
        self.forget(now);
        match self.samples.back_mut() {
            Some((at, sum)) if now < *at + GRAIN => *sum += bytes,
            _ => self.samples.push_back((now, bytes)),
        }
    }

    /// Over the window, or over the time since the beginning where that is shorter.
    pub(super) fn bytes_per_s(&self, now: Duration) -> u64 {
        let oldest = now.saturating_sub(self.window);
        let recent: u64 = self.samples.iter().filter(|(at, _)| *at >= oldest).map(|(_, bytes)| bytes).sum();
        let span = now.saturating_sub(self.since).min(self.window).max(GRAIN);
        (recent as f64 / span.as_secs_f64()) as u64
    }

    fn forget(&mut self, now: Duration) {
        let oldest = now.saturating_sub(self.window);
        while self.samples.front().is_some_and(|(at, _)| *at < oldest) {
            self.samples.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_what_comes_and_forgets_what_came() {
        let at = Duration::from_millis;
        let mut speed = Speed::new(at(0), at(1000));
        for tick in 0..20 {
            speed.add(at(100 * tick), 100);
        }
        assert_eq!(speed.bytes_per_s(at(1900)), 1100, "eleven samples lie within the window's second, ends included");
        assert_eq!(speed.bytes_per_s(at(2500)), 500, "half a second of silence");
        assert_eq!(speed.bytes_per_s(at(9000)), 0, "silence");
        let mut young = Speed::new(at(0), at(1000));
        young.add(at(100), 100);
        assert_eq!(young.bytes_per_s(at(100)), 1000, "a beginner is not measured against a whole window");
    }
}
