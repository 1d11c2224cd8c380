//! Speed measurement over a sliding window.

use std::collections::VecDeque;
use std::time::Duration;

/// Samples closer together than this are merged.
const GRAIN: Duration = Duration::from_millis(50);

/// Bytes per second over a sliding window. Times are relative to the start of the download.
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

    /// Average over the window, or since the start if that is shorter.
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
    fn speed_is_average_over_window() {
        let at = Duration::from_millis;
        let mut speed = Speed::new(at(0), at(1000));
        for tick in 0..20 {
            speed.add(at(100 * tick), 100);
        }
        assert_eq!(speed.bytes_per_s(at(1900)), 1100, "eleven samples are within one second, both ends included");
        assert_eq!(speed.bytes_per_s(at(2500)), 500, "half a second of silence");
        assert_eq!(speed.bytes_per_s(at(9000)), 0, "silence");
        let mut young = Speed::new(at(0), at(1000));
        young.add(at(100), 100);
        assert_eq!(young.bytes_per_s(at(100)), 1000, "a short measurement uses the elapsed time");
    }
}
