//! Leaves a place alone that fails: for a minute at first, then for longer each time, until somebody who can wait has tried again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Failed calls in a row after which it opens.
const FAILURES: u32 = 3;
/// How long it stays open the first time.
pub(super) const FIRST: Duration = Duration::from_secs(60);
/// How long it stays open at most.
pub(super) const LONGEST: Duration = Duration::from_secs(15 * 60);

#[derive(Debug, Default)]
struct State {
    failures: u32,
    /// Open until then; and then until a trial goes well.
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    until: Duration,
    span: Duration,
    trying: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    state: Mutex<State>,
}

impl Breaker {
    /// Whether calls are made.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().open.is_none()
    }

    /// Whether this call may be made. While it is open, that is one at a time, of those that may be tried, once its span is over.
    /// Every call that was admitted is to be noted.
    pub(super) fn admits(&self, now: Duration, may_try: bool) -> bool {
        match &mut self.lock().open {
            None => true,
            Some(open) if may_try && !open.trying && now >= open.until => {
                open.trying = true;
                true
            }
            Some(_) => false,
        }
    }

    /// Notes how a call went.
    pub(super) fn note(&self, now: Duration, went_well: bool) {
        let mut state = self.lock();
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
            // Calls that began before it opened end now.
            Some(_) => {}
            None if *failures >= FAILURES => {
                *state = Some(Open { until: now + FIRST, span: FIRST, trying: false });
            }
            None => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_for_longer_each_time_and_closes_when_a_trial_goes_well() {
        let breaker = Breaker::default();
        let mut now = Duration::from_secs(5);
        for _ in 0..FAILURES {
            assert!(breaker.admits(now, false), "a few failures are bad luck");
            breaker.note(now, false);
        }
        let mut span = FIRST;
        for _ in 0..7 {
            assert!(!breaker.is_closed() && !breaker.admits(now, true), "open at once");
            assert!(!breaker.admits(now + span - Duration::from_secs(1), true), "open for {span:?}");
            now += span;
            assert!(!breaker.admits(now, false), "who cannot wait does not try");
            assert!(breaker.admits(now, true), "one tries after {span:?}");
            assert!(!breaker.admits(now, true), "one at a time");
            breaker.note(now, false);
            span = (span * 2).min(LONGEST);
        }
        assert_eq!(span, LONGEST, "no longer than that");
        now += span;
        assert!(breaker.admits(now, true), "it is tried on");
        breaker.note(now, true);
        assert!(breaker.is_closed() && breaker.admits(now, false), "one that went well closes it");
        breaker.note(now, false);
        assert!(breaker.admits(now, false), "and all is forgotten");
    }
}
