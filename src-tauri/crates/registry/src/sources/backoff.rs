//! Backoff of hosts that failed: until the backoff ends, they are tried after all other hosts. Each failure in a row
//! doubles the backoff.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Backoff durations.
#[derive(Debug, Clone, Copy)]
pub struct BackoffConfig {
    /// After the first failure; each further failure in a row doubles it.
    pub initial: Duration,
    /// The maximum.
    pub max: Duration,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self { initial: Duration::from_secs(15), max: Duration::from_secs(10 * 60) }
    }
}

/// The hosts that failed.
pub(super) struct BackoffTracker {
    config: BackoffConfig,
    failed_hosts: Mutex<HashMap<String, FailedHost>>,
}

struct FailedHost {
    failures: u32,
    until: Instant,
}

/// The remaining backoff of a host, and its number of failures in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RemainingBackoff {
    pub(super) failures: u32,
    pub(super) remaining: Duration,
}

impl BackoffTracker {
    pub(super) fn new(config: BackoffConfig) -> Self {
        Self { config, failed_hosts: Mutex::default() }
    }

    pub(super) fn is_active(&self, host: &str) -> bool {
        self.failed_hosts().get(host).is_some_and(|failed_hosts| Instant::now() < failed_hosts.until)
    }

    /// All hosts in backoff, sorted.
    pub(super) fn active(&self) -> Vec<(String, RemainingBackoff)> {
        let now = Instant::now();
        let failed_hosts = self.failed_hosts();
        let active = failed_hosts.iter().filter(|(_, failed_hosts)| now < failed_hosts.until);
        let mut active: Vec<_> = active
            .map(|(host, failed_hosts)| {
                let remaining = failed_hosts.until.saturating_duration_since(now);
                (host.clone(), RemainingBackoff { failures: failed_hosts.failures, remaining })
            })
            .collect();
        active.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        active
    }

    /// Restores the backoff of a host from an earlier process, limited to the configured maximum.
    pub(super) fn restore(&self, host: &str, backoff: RemainingBackoff) {
        if !backoff.remaining.is_zero() {
            let until = Instant::now() + backoff.remaining.min(self.config.max);
            self.failed_hosts().insert(host.to_owned(), FailedHost { failures: backoff.failures.max(1), until });
        }
    }

    /// Records a failure. Returns whether it is the first of the host since its last success. Failures during the backoff
    /// belong to earlier requests: they are not counted and return `false`.
    pub(super) fn record_failure(&self, host: &str) -> bool {
        let now = Instant::now();
        let mut failed_hosts = self.failed_hosts();
        match failed_hosts.get_mut(host) {
            Some(failed_hosts) if now < failed_hosts.until => false,
            Some(failed_hosts) => {
                failed_hosts.failures += 1;
                failed_hosts.until = now + self.duration(failed_hosts.failures);
                false
            }
            None => {
                failed_hosts.insert(host.to_owned(), FailedHost { failures: 1, until: now + self.duration(1) });
                true
            }
        }
    }

    /// Clears the failures of a host and returns whether there were any.
    pub(super) fn record_success(&self, host: &str) -> bool {
        self.failed_hosts().remove(host).is_some()
    }

    fn duration(&self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        self.config.initial.saturating_mul(doubled).min(self.config.max)
    }

    fn failed_hosts(&self) -> parking_lot::MutexGuard<'_, HashMap<String, FailedHost>> {
        self.failed_hosts.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn backoff_doubles_to_maximum_and_ends() {
        let backoff =
            BackoffTracker::new(BackoffConfig { initial: Duration::from_secs(10), max: Duration::from_secs(25) });
        assert!(!backoff.is_active("h"), "no failure yet");
        for (failure, seconds) in [10, 20, 25, 25].into_iter().enumerate() {
            assert_eq!(backoff.record_failure("h"), failure == 0, "only the first failure is new");
            assert!(!backoff.record_failure("h"), "a failure during the backoff is not counted");
            tokio::time::advance(Duration::from_secs(seconds - 1)).await;
            assert!(backoff.is_active("h"), "failure {failure}: the backoff lasts {seconds} s");
            assert!(!backoff.is_active("other"), "other hosts have no backoff");
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(!backoff.is_active("h"), "failure {failure}: the backoff ends after {seconds} s");
        }
        assert!(backoff.record_success("h"), "the host recovered");
        assert!(!backoff.record_success("h"), "it had recovered before");
        backoff.record_failure("h");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!backoff.is_active("h"), "the backoff starts at its initial value again");
    }
}
