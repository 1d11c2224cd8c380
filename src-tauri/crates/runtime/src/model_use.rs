//! Uses of a loaded model: leases that have not begun a generation, and generations that have not ended.
//!
//! A lease lives until its client has read the whole answer. A model can be unloaded when all its generations have
//! ended: the unread events are in channels. So clients that do not read cannot keep a model loaded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Number of uses of one model.
#[derive(Clone, Default)]
pub(crate) struct ModelUses {
    count: Arc<AtomicUsize>,
    /// Notified when the last use ends.
    idle: Arc<Notify>,
}

impl ModelUses {
    /// Counts uses, and notifies `idle` when there are none.
    pub(crate) fn new(idle: Arc<Notify>) -> Self {
        Self { count: Arc::default(), idle }
    }

    /// Adds a use that lasts until the result is dropped.
    pub(crate) fn begin(&self) -> ModelUse {
        self.count.fetch_add(1, Ordering::AcqRel);
        ModelUse(self.clone())
    }

    /// Whether there are uses.
    pub(crate) fn has_any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }
}

/// One use of a model.
pub(crate) struct ModelUse(ModelUses);

impl Drop for ModelUse {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
