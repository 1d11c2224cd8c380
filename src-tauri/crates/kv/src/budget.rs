//! The memory that all page pools of a process share.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes for the page pools of all loaded models, live and cached pages alike. A pool takes what it grows by and gives it back
/// when its model is unloaded.
#[derive(Debug)]
pub struct Budget {
    limit_bytes: u64,
    used_bytes: AtomicU64,
}

impl Budget {
    /// A budget of this many bytes, all free.
    pub const fn new(bytes: u64) -> Self {
        Self { limit_bytes: bytes, used_bytes: AtomicU64::new(0) }
    }

    /// Bytes in all.
    pub fn limit(&self) -> u64 {
        self.limit_bytes
    }

    /// Bytes that pools have taken.
    pub fn used(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Takes up to `wanted` units of `unit_bytes` and returns how many fitted.
    pub(crate) fn take(&self, unit_bytes: u64, wanted: u64) -> u64 {
        let mut granted = 0;
        // Another model's pool may take from the same budget at the same time, so the grant is decided inside the update.
        let _ = self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            granted = (self.limit_bytes.saturating_sub(used) / unit_bytes).min(wanted);
            Some(used + granted * unit_bytes)
        });
        granted
    }

    /// Gives bytes back.
    pub(crate) fn give(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_only_whole_units_that_fit() {
        let budget = Budget::new(100);
        assert_eq!(budget.take(30, 2), 2, "both units fit");
        assert_eq!(budget.take(30, 5), 1, "40 bytes are left, which is one unit");
        assert_eq!(budget.used(), 90, "three units are taken");
        budget.give(60);
        assert_eq!(budget.used(), 30, "two units came back");
    }
}
