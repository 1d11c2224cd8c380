//! Stops calls to a failing server: for a minute at first, then longer each time, until a probe succeeds.

use std::time::Duration;

use parking_lot::Mutex;

/// Consecutive failures after which the breaker opens.
const FAILURES: u32 = 3;
/// First open interval.
pub(super) const FIRST: Duration = Duration::from_secs(60);
/// Longest open interval.
pub(super) const LONGEST: Duration = Duration::from_secs(15 * 60);

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// Set while the breaker is open, until a probe succeeds.
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    until: Duration,
    span: Duration,
    trying: bool,
}

/// Circuit breaker: stops calls to a failing server until a probe succeeds.
#[derive(Debug, Default)]
pub(super) struct CircuitBreaker {
    state: Mutex<State>,
}

impl CircuitBreaker {
    /// Returns whether the breaker is closed, so that calls are made.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().open.is_none()
    }

    /// Returns whether this call may be made. While open, the breaker admits one probe at a time after its interval.
    /// Record the result of every admitted call with `note`.
    pub(super) fn admits(&self, now: Duration, may_try: bool) -> bool {
        match &mut self.state.lock().open {
            None => true,
            Some(open) if may_try && !open.trying && now >= open.until => {
                open.trying = true;
                true
            }
            Some(_) => false,
        }
    }

    /// Records the result of a call.
    pub(super) fn note(&self, now: Duration, went_well: bool) {
        let mut state = self.state.lock();
        if went_well {
            *state = State::default();
            return;
        }
        let State { failures, open: state } = &mut *state;
        *failures += 1;
        match state {
            Some(open) if open.trying => {
                let span = (open.span * 2).min(LONGEST);
                *open = Open { until: now + span, span, trying: false };
            }
            // A call that began before the breaker opened ends now.
            Some(_) => {}
            None if *failures >= FAILURES => {
                *state = Some(Open { until: now + FIRST, span: FIRST, trying: false });
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaker_opens_for_longer_intervals_and_closes_after_successful_probe() {
        let breaker = CircuitBreaker::default();
        let mut now = Duration::from_secs(5);
        for _ in 0..FAILURES {
            assert!(breaker.admits(now, false), "the breaker stays closed after a few failures");
            breaker.note(now, false);
        }
        let mut span = FIRST;
        for _ in 0..7 {
            assert!(!breaker.is_closed() && !breaker.admits(now, true), "the breaker is open");
            assert!(!breaker.admits(now + span - Duration::from_secs(1), true), "the breaker is open for {span:?}");
            now += span;
            assert!(!breaker.admits(now, false), "only calls that may probe are admitted");
            assert!(breaker.admits(now, true), "one probe is admitted after {span:?}");
            assert!(!breaker.admits(now, true), "only one probe at a time");
            breaker.note(now, false);
            span = (span * 2).min(LONGEST);
        }
        assert_eq!(span, LONGEST, "the interval has a maximum");
        now += span;
        assert!(breaker.admits(now, true), "probes continue");
        breaker.note(now, true);
        assert!(breaker.is_closed() && breaker.admits(now, false), "a successful probe closes the breaker");
        breaker.note(now, false);
        assert!(breaker.admits(now, false), "the failure count is reset");
    }
}
