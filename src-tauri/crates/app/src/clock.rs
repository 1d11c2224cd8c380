//! The wall clock. It is passed in, so that tests can set the time.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Source of the current time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The clock of this machine.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system for the time")]
    pub fn real() -> Self {
        Self(Arc::new(SystemTime::now))
    }

    /// A clock with a fixed time.
    #[must_use]
    pub fn fixed(at: SystemTime) -> Self {
        Self(Arc::new(move || at))
    }

    /// A clock that reads the time from a function.
    #[cfg(test)]
    pub(crate) fn from_fn(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
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
