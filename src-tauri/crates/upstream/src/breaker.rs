//! Circuit breaker: a server that fails repeatedly gets no requests for a while, then one as a probe.
//!
//! ```text
//!   closed --3 failures in a row--> open --cool-down is over--> half open: one probe
//!     ^                              ^                                 |      |
//!     |                              '------ failure, twice the wait --'      |
//!     '--------------------------------------------------------- success -----'
//! ```

use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row that open the circuit. One failure may be a restart.
const MAX_FAILURES: u32 = 3;
/// First cool-down; each failed probe doubles it.
const FIRST_COOL_DOWN: Duration = Duration::from_secs(2);
/// Longest cool-down.
const MAX_COOL_DOWN: Duration = Duration::from_secs(60);

/// Circuit breaker of one server.
#[derive(Debug, Clone, Default)]
pub struct Breaker {
    failures: u32,
    /// When the circuit lets the next probe through, while it is open.
    open_until: Option<Instant>,
    cool_down: Duration,
    is_probing: bool,
}

impl Breaker {
    /// Whether a request may be sent at `now`.
    #[must_use]
    pub fn is_ready(&self, now: Instant) -> bool {
        self.open_until.is_none_or(|until| now >= until && !self.is_probing)
    }

    /// Time until a request may be sent; 0 if that depends on the probe in progress.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Duration {
        self.open_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Begins a request. Returns `false` if none may be sent.
    #[must_use]
    pub fn begin(&mut self, now: Instant) -> bool {
        let is_ready = self.is_ready(now);
        self.is_probing |= is_ready && self.open_until.is_some();
        is_ready
    }

    /// Ends a request that the server answered, or a successful check of its health.
    pub fn succeed(&mut self) {
        *self = Self::default();
    }

    /// Ends a request because of an outage of the server. Returns whether this opens the circuit.
    pub fn fail(&mut self, now: Instant) -> bool {
        let was_closed = self.open_until.is_none();
        self.failures = self.failures.saturating_add(1);
        if was_closed && self.failures < MAX_FAILURES {
            return false;
        }
        // Requests that began before the circuit opened fail late, and do not prolong the wait.
        if was_closed || self.is_probing {
            self.cool_down = if was_closed { FIRST_COOL_DOWN } else { (self.cool_down * 2).min(MAX_COOL_DOWN) };
            self.open_until = Some(now + self.cool_down);
        }
        self.is_probing = false;
        was_closed
    }

    /// Ends a request without a result: the client cancelled it, or the server was busy.
    pub fn cancel(&mut self) {
        self.is_probing = false;
    }

    /// Whether the circuit is open or half open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A breaker with an open circuit.
    fn open(now: Instant) -> Breaker {
        let mut breaker = Breaker::default();
        for failure in 1..=MAX_FAILURES {
            assert!(breaker.begin(now), "closed before failure {failure}");
            assert_eq!(breaker.fail(now), failure == MAX_FAILURES, "failure {failure}");
        }
        breaker
    }

    #[test]
    fn circuit_opens_after_failures_in_a_row() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            breaker.fail(now);
            breaker.succeed();
        }
        assert!(!breaker.is_open(), "a success resets the count");
        let mut breaker = open(now);
        assert!(!breaker.begin(now + FIRST_COOL_DOWN / 2), "open");
        assert_eq!(breaker.wait(now), FIRST_COOL_DOWN);
    }

    #[test]
    fn half_open_circuit_lets_one_probe_through() {
        let now = Instant::now();
        let mut breaker = open(now);
        let later = now + FIRST_COOL_DOWN;
        assert!(breaker.begin(later) && !breaker.begin(later), "one probe at a time");
        breaker.cancel();
        assert!(breaker.begin(later), "a cancelled probe is not a result");
        breaker.succeed();
        assert!(breaker.begin(later) && breaker.begin(later), "closed");
    }

    #[test]
    fn failed_probe_doubles_the_wait_up_to_a_limit() {
        let mut now = Instant::now();
        let mut breaker = open(now);
        for expected_s in [4, 8, 16, 32, 60, 60] {
            now += breaker.wait(now);
            assert!(breaker.begin(now), "a probe");
            assert!(!breaker.fail(now), "it was open before");
            assert_eq!(breaker.wait(now), Duration::from_secs(expected_s));
        }
    }

    #[test]
    fn late_failure_does_not_prolong_the_wait() {
        let now = Instant::now();
        let mut breaker = open(now);
        breaker.fail(now + FIRST_COOL_DOWN / 2);
        assert!(breaker.is_ready(now + FIRST_COOL_DOWN));
    }
}
