//! Wakes a scheduler when the client of a generation reads, replies or leaves.

use std::fmt;
use std::sync::Arc;

/// Callback that wakes a scheduler.
#[derive(Clone)]
pub(crate) struct SchedulerWaker(Arc<dyn Fn() + Send + Sync>);

impl SchedulerWaker {
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    pub(crate) fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for SchedulerWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SchedulerWaker")
    }
}

/// Wakes the scheduler when it is dropped.
#[derive(Clone, Debug)]
pub(crate) struct WakeOnDrop(pub(crate) SchedulerWaker);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.0.wake();
    }
}
