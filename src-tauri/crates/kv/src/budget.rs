//! The memory budget that all page pools of a process share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use cairn_tier::Waker;
use parking_lot::Mutex;

/// Budget in bytes for the page pools of all loaded models, live and cached pages alike. A pool reserves memory as it grows, and
/// releases it when its model is unloaded.
#[derive(Default)]
pub struct Budget {
    limit_bytes: u64,
    used_bytes: AtomicU64,
    /// Called when a pool is dropped.
    wakers: Mutex<Vec<Weak<dyn Fn() + Send + Sync>>>,
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").field("limit", &self.limit()).field("used", &self.used()).finish_non_exhaustive()
    }
}

impl Budget {
    /// An unused budget of this many bytes.
    pub fn new(bytes: u64) -> Self {
        Self { limit_bytes: bytes, ..Self::default() }
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit_bytes
    }

    /// Bytes that pools have reserved.
    pub fn used(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Reserves up to `wanted` units of `unit_bytes`. Returns the number of units reserved.
    pub(crate) fn reserve(&self, unit_bytes: u64, wanted: u64) -> u64 {
        let mut granted = 0;
        // Another model's pool may reserve at the same time, so the grant is computed within the update.
        let _ = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            granted = (self.limit_bytes.saturating_sub(used) / unit_bytes).min(wanted);
            Some(used + granted * unit_bytes)
        });
        granted
    }

    /// Releases bytes.
    pub(crate) fn release(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Calls `waker` at each [`Budget::wake_all`] until it is dropped.
    pub(crate) fn add_waker(&self, waker: &Waker) {
        self.wakers.lock().push(Arc::downgrade(waker));
    }

    /// Wakes all caches after memory was released.
    pub(crate) fn wake_all(&self) {
        self.wakers.lock().retain(|waker| waker.upgrade().inspect(|waker| waker()).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_grants_whole_units_that_fit() {
        let budget = Budget::new(100);
        assert_eq!(budget.reserve(30, 2), 2, "both units fit");
        assert_eq!(budget.reserve(30, 5), 1, "40 bytes are left, which is one unit");
        assert_eq!(budget.used(), 90, "three units are reserved");
        budget.release(60);
        assert_eq!(budget.used(), 30, "two units were released");
    }

    #[test]
    fn dropped_wakers_are_removed() {
        let budget = Budget::new(0);
        let calls = Arc::new(AtomicU64::new(0));
        let waker = || {
            let calls = Arc::clone(&calls);
            Arc::new(move || {
                calls.fetch_add(1, Ordering::Relaxed);
            }) as Waker
        };
        let wakers = [waker(), waker()];
        wakers.iter().for_each(|waker| budget.add_waker(waker));
        budget.wake_all();
        drop(wakers);
        budget.wake_all();
        assert_eq!(calls.load(Ordering::Relaxed), 2, "each waker is called while it exists");
        assert!(budget.wakers.lock().is_empty(), "dropped wakers are removed");
    }
}
