//! Pool of snapshots: the states of recurrent layers after some token, see [`cairn_tensor::snapshot`].
//!
//! A running sequence has the snapshot after its last token, and writes others in each step. Pages have snapshots too: the states after
//! their last token, from which other sequences can continue.
//!
//! **Invariant:** only a snapshot that a sequence has just taken is written. So a shared one never changes.

use std::sync::Arc;

use cairn_tensor::{Backend, BackendError, SnapshotId};

use crate::budget::Budget;

/// All snapshots of a backend.
#[derive(Debug)]
pub(crate) struct Snapshots {
    /// Number of sequences and pages that have it, by snapshot.
    holders: Vec<u32>,
    free: Vec<SnapshotId>,
    /// Bytes of one; 0 for a model without recurrent layers.
    bytes: u64,
    budget: Arc<Budget>,
}

impl Snapshots {
    pub(crate) fn new(bytes: usize, budget: Arc<Budget>) -> Self {
        Self { holders: Vec::new(), free: Vec::new(), bytes: bytes as u64, budget }
    }

    /// Whether the model has recurrent layers.
    pub(crate) fn are_needed(&self) -> bool {
        self.bytes > 0
    }

    /// Number of free snapshots.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Bytes of all snapshots.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.holders.len() as u64 * self.bytes
    }

    /// Bytes of one snapshot.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds up to `count` snapshots, as many as the budget allows. If the backend is out of memory, adds none.
    pub(crate) fn grow(&mut self, backend: &mut dyn Backend, count: usize) -> Result<(), BackendError> {
        let granted = self.budget.reserve(self.bytes, count as u64) as usize;
        let first = self.holders.len();
        match backend.grow_snapshots(first + granted) {
            Ok(()) => {
                self.holders.resize(first + granted, 0);
                self.free.extend((first..first + granted).rev().map(|id| SnapshotId(id as u32)));
                Ok(())
            }
            Err(error) => {
                self.budget.release(granted as u64 * self.bytes);
                if matches!(error, BackendError::Memory { .. }) { Ok(()) } else { Err(error) }
            }
        }
    }

    /// Takes a free snapshot for one holder.
    pub(crate) fn take(&mut self) -> Option<SnapshotId> {
        let id = self.free.pop()?;
        self.holders[id.0 as usize] = 1;
        Some(id)
    }

    pub(crate) fn hold(&mut self, id: SnapshotId) {
        self.holders[id.0 as usize] += 1;
    }

    pub(crate) fn release(&mut self, id: SnapshotId) {
        let holders = &mut self.holders[id.0 as usize];
        *holders -= 1;
        if *holders == 0 {
            self.free.push(id);
        }
    }

    /// Whether there is one holder.
    pub(crate) fn has_one_holder(&self, id: SnapshotId) -> bool {
        self.holders[id.0 as usize] == 1
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        self.budget.release(self.total_bytes());
        self.budget.wake_all();
    }
}
