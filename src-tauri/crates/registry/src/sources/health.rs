//! Which hosts failed lately. One that did rests: it is asked after all others until its time is over, longer with every
//! failure in a row.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long who fails rests.
#[derive(Debug, Clone, Copy)]
pub struct HealthRules {
    /// After the first failure; each further one in a row doubles it.
    pub rest: Duration,
    /// At most.
    pub longest_rest: Duration,
}

impl Default for HealthRules {
    fn default() -> Self {
        Self { rest: Duration::from_secs(15), longest_rest: Duration::from_secs(10 * 60) }
    }
}

/// What is remembered of hosts that failed.
pub(super) struct Health {
    rules: HealthRules,
    failing: Mutex<HashMap<String, Failing>>,
}

struct Failing {
    in_a_row: u32,
    until: Instant,
}

/// How long a host rests still, and after how many failures in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resting {
    pub(super) failures: u32,
    pub(super) left: Duration,
}

impl Health {
    pub(super) fn new(rules: HealthRules) -> Self {
        Self { rules, failing: Mutex::default() }
    }

    pub(super) fn rests(&self, host: &str) -> bool {
        self.failing().get(host).is_some_and(|failing| Instant::now() < failing.until)
    }

    /// Everybody who rests.
    pub(super) fn resting(&self) -> Vec<(String, Resting)> {
        let now = Instant::now();
        let failing = self.failing();
        let resting = failing.iter().filter(|(_, failing)| now < failing.until);
        let mut resting: Vec<_> = resting
            .map(|(host, failing)| {
                let left = failing.until.saturating_duration_since(now);
                (host.clone(), Resting { failures: failing.in_a_row, left })
            })
            .collect();
        resting.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        resting
    }

    /// Takes up what an earlier program knew of a host, which rests no longer than the rules say.
    pub(super) fn recall(&self, host: &str, resting: Resting) {
        if !resting.left.is_zero() {
            let until = Instant::now() + resting.left.min(self.rules.longest_rest);
            self.failing().insert(host.to_owned(), Failing { in_a_row: resting.failures.max(1), until });
        }
    }

    /// Counts a failure, and returns whether the host worked until now. Failures while it rests are of requests that began
    /// before, and count as one.
    pub(super) fn failed(&self, host: &str) -> bool {
        let now = Instant::now();
        let mut failing = self.failing();
        match failing.get_mut(host) {
            Some(failing) if now < failing.until => false,
            Some(failing) => {
                failing.in_a_row += 1;
                failing.until = now + self.rest(failing.in_a_row);
                false
            }
            None => {
                failing.insert(host.to_owned(), Failing { in_a_row: 1, until: now + self.rest(1) });
                true
            }
        }
    }

    /// Forgets all failures, and returns whether there were any.
    pub(super) fn worked(&self, host: &str) -> bool {
        self.failing().remove(host).is_some()
    }

    fn rest(&self, in_a_row: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(in_a_row.saturating_sub(1));
        self.rules.rest.saturating_mul(doubled).min(self.rules.longest_rest)
    }

    fn failing(&self) -> std::sync::MutexGuard<'_, HashMap<String, Failing>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rests_grow_and_end() {
        let health = Health::new(HealthRules { rest: Duration::from_secs(10), longest_rest: Duration::from_secs(25) });
        assert!(!health.rests("h"), "nobody failed yet");
        for (failure, seconds) in [10, 20, 25, 25].into_iter().enumerate() {
            assert_eq!(health.failed("h"), failure == 0, "only the first is news");
            assert!(!health.failed("h"), "what failed at the same time is no news and counts once");
            tokio::time::advance(Duration::from_secs(seconds - 1)).await;
            assert!(health.rests("h"), "failure {failure}: it rests for {seconds} s");
            assert!(!health.rests("other"), "others do not");
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(!health.rests("h"), "failure {failure}: it rests for no longer than {seconds} s");
        }
        assert!(health.worked("h"), "that is news");
        assert!(!health.worked("h"), "and now it is none");
        health.failed("h");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!health.rests("h"), "it begins anew");
    }
}
