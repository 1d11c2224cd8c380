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
    /// Number of the probe in progress.
    probe: Option<u64>,
    /// Probes so far.
    probes: u64,
}

/// Permission to send a request. Its result counts as that of the probe only if it is the probe in progress: requests that began
/// before the circuit opened end late.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// Number of the probe; `None` for a request that began while the circuit was closed.
    probe: Option<u64>,
}

impl Breaker {
    /// Whether a request may be sent at `now`.
    #[must_use]
    pub fn is_ready(&self, now: Instant) -> bool {
        self.open_until.is_none_or(|until| now >= until && self.probe.is_none())
    }

    /// Time until a request may be sent; 0 if that depends on the probe in progress.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Duration {
        self.open_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Begins a request. Returns `None` if none may be sent.
    pub fn begin(&mut self, now: Instant) -> Option<Permit> {
        if !self.is_ready(now) {
            return None;
        }
        if self.open_until.is_some() {
            self.probes += 1;
            self.probe = Some(self.probes);
        }
        Some(Permit { probe: self.probe })
    }

    /// Ends a request that the server answered.
    pub fn succeed(&mut self) {
        *self = Self { probes: self.probes, ..Self::default() };
    }

    /// Ends a request because of an outage of the server. Returns whether this opens the circuit.
    pub fn fail(&mut self, permit: Permit, now: Instant) -> bool {
        if self.open_until.is_some() {
            if self.end_probe(permit) {
                self.cool_down = (self.cool_down * 2).min(MAX_COOL_DOWN);
                self.open_until = Some(now + self.cool_down);
            }
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures < MAX_FAILURES {
            return false;
        }
        self.cool_down = FIRST_COOL_DOWN;
        self.open_until = Some(now + self.cool_down);
        true
    }

    /// Ends a request without a result: the client cancelled it, or the server was busy.
    pub fn cancel(&mut self, permit: Permit) {
        self.end_probe(permit);
    }

    /// Ends the probe in progress if the permit is its own.
    fn end_probe(&mut self, permit: Permit) -> bool {
        let is_probe = self.probe.is_some() && permit.probe == self.probe;
        if is_probe {
            self.probe = None;
        }
        is_probe
    }

    /// The server has come up: an open circuit becomes half open. That a server lists its models does not close it, because a
    /// server may list them and fail all answers.
    pub fn half_open(&mut self, now: Instant) {
        self.open_until = self.open_until.map(|until| until.min(now));
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

    /// A breaker with an open circuit, and the permit of a request that began before it opened.
    fn open(now: Instant) -> (Breaker, Permit) {
        let mut breaker = Breaker::default();
        let late = breaker.begin(now).expect("closed");
        for failure in 1..=MAX_FAILURES {
            let permit = breaker.begin(now).expect("closed");
            assert_eq!(breaker.fail(permit, now), failure == MAX_FAILURES, "failure {failure}");
        }
        (breaker, late)
    }

    #[test]
    fn circuit_opens_after_failures_in_a_row() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            let permit = breaker.begin(now).expect("closed");
            breaker.fail(permit, now);
            breaker.succeed();
        }
        assert!(!breaker.is_open(), "a success resets the count");
        let (mut breaker, _) = open(now);
        assert_eq!(breaker.begin(now + FIRST_COOL_DOWN / 2), None, "open");
        assert_eq!(breaker.wait(now), FIRST_COOL_DOWN);
    }

    #[test]
    fn half_open_circuit_lets_one_probe_through() {
        let now = Instant::now();
        let (mut breaker, _) = open(now);
        let later = now + FIRST_COOL_DOWN;
        let probe = breaker.begin(later).expect("a probe");
        assert_eq!(breaker.begin(later), None, "one probe at a time");
        breaker.cancel(probe);
        assert!(breaker.begin(later).is_some(), "a cancelled probe is not a result");
        breaker.succeed();
        assert!(breaker.begin(later).is_some() && breaker.begin(later).is_some(), "closed");
    }

    #[test]
    fn server_that_comes_up_makes_the_circuit_half_open() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        breaker.half_open(now);
        assert!(!breaker.is_open(), "a closed circuit stays closed");
        let (mut breaker, _) = open(now);
        breaker.half_open(now);
        let probe = breaker.begin(now).expect("a probe");
        assert_eq!(breaker.begin(now), None, "one probe only");
        breaker.fail(probe, now);
        assert_eq!(breaker.wait(now), 2 * FIRST_COOL_DOWN, "the wait doubles all the same");
    }

    #[test]
    fn failed_probe_doubles_the_wait_up_to_a_limit() {
        let mut now = Instant::now();
        let (mut breaker, _) = open(now);
        for expected_s in [4, 8, 16, 32, 60, 60] {
            now += breaker.wait(now);
            let probe = breaker.begin(now).expect("a probe");
            assert!(!breaker.fail(probe, now), "it was open before");
            assert_eq!(breaker.wait(now), Duration::from_secs(expected_s));
        }
    }

    #[test]
    fn late_request_changes_neither_the_wait_nor_the_probe() {
        let now = Instant::now();
        let (mut breaker, late) = open(now);
        breaker.fail(late, now + FIRST_COOL_DOWN / 2);
        let later = now + FIRST_COOL_DOWN;
        assert!(breaker.is_ready(later), "the wait is the same");
        let probe = breaker.begin(later).expect("a probe");
        breaker.cancel(late);
        assert_eq!(breaker.begin(later), None, "the probe is in progress after a late cancellation");
        breaker.fail(late, later);
        assert_eq!((breaker.begin(later), breaker.wait(later)), (None, Duration::ZERO), "and after a late failure");
        breaker.fail(probe, later);
        assert_eq!(breaker.wait(later), 2 * FIRST_COOL_DOWN);
    }

    #[test]
    fn probe_of_an_earlier_outage_is_not_the_probe_in_progress() {
        let now = Instant::now();
        let (mut breaker, _) = open(now);
        let old = breaker.begin(now + FIRST_COOL_DOWN).expect("a probe");
        breaker.succeed();
        for _ in 0..MAX_FAILURES {
            let permit = breaker.begin(now).expect("closed");
            breaker.fail(permit, now);
        }
        assert!(breaker.begin(now + FIRST_COOL_DOWN).is_some(), "the probe of the next outage");
        breaker.cancel(old);
        assert_eq!(breaker.begin(now + FIRST_COOL_DOWN), None, "it is in progress");
    }
}
