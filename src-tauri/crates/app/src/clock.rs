//! The wall clock, passed in, so that tests decide what time it is.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Tells the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The clock of this machine.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system for the time")]
    pub fn real() -> Self {
        Self(Arc::new(SystemTime::now))
    }

    /// A clock that stands still.
    #[must_use]
    pub fn standing(at: SystemTime) -> Self {
        Self(Arc::new(move || at))
    }

    /// A clock that somebody turns.
    #[cfg(test)]
    pub(crate) fn turned(hands: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(hands))
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({:?})", self.now())
    }
}
