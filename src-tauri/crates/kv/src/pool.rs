//! Page pool of one backend: free pages, reference counts, and growth within the budget.
//!
//! **Invariant:** a page is free exactly if no sequence holds it and no trie node refers to it.

use std::sync::Arc;

use cairn_tensor::{Backend, BackendError, PageId, PageLayout, SnapshotId};

use crate::budget::Budget;
use crate::snapshots::Snapshots;
use crate::trie::NodeId;

/// Maximum growth at once. The pool grows by half of its size, so a small chat uses little of the budget.
const GROWTH_BYTES: u64 = 64 << 20;

/// References to a page.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Number of sequences that hold it.
    holders: u32,
    /// Trie node that has the page.
    node: Option<NodeId>,
    /// Whether it lacks the rows of window layers.
    missing_window_rows: bool,
    /// States of recurrent layers after its last token.
    snapshot: Option<PageSnapshot>,
}

/// Snapshot that belongs to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageSnapshot {
    pub(crate) id: SnapshotId,
    /// Number of tokens from the start of the sequence, the last of which is in the page.
    pub(crate) tokens: usize,
}

/// All pages of a backend.
#[derive(Debug)]
pub(crate) struct Pool {
    slots: Vec<Slot>,
    free: Vec<PageId>,
    page_bytes: u64,
    snapshots: Snapshots,
    budget: Arc<Budget>,
}

impl Pool {
    pub(crate) fn new(layout: &PageLayout, budget: Arc<Budget>) -> Self {
        // A model without attention state has empty pages. One byte each avoids a division by zero.
        let snapshots = Snapshots::new(layout.snapshot.bytes, Arc::clone(&budget));
        Self { slots: Vec::new(), free: Vec::new(), page_bytes: layout.page_bytes.max(1) as u64, snapshots, budget }
    }

    /// Number of pages.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Number of free pages.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    pub(crate) fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    pub(crate) fn snapshots_mut(&mut self) -> &mut Snapshots {
        &mut self.snapshots
    }

    /// Whether one more snapshot is within half of the budget that other pools leave.
    pub(crate) fn has_fair_snapshots(&self) -> bool {
        let mine = self.slots.len() as u64 * self.page_bytes + self.snapshots.total_bytes();
        let others = self.budget.used().saturating_sub(mine);
        self.snapshots.total_bytes() + self.snapshots.bytes() <= self.budget.limit().saturating_sub(others) / 2
    }

    /// The snapshot of a page.
    pub(crate) fn snapshot(&self, page: PageId) -> Option<PageSnapshot> {
        self.slots[page.0 as usize].snapshot
    }

    /// Adds a snapshot to a page, unless it has one after as many tokens.
    pub(crate) fn add_snapshot(&mut self, page: PageId, snapshot: PageSnapshot) {
        if self.snapshot(page).is_none_or(|before| before.tokens < snapshot.tokens) {
            self.drop_snapshot(page);
            self.snapshots.hold(snapshot.id);
            self.slot(page).snapshot = Some(snapshot);
        }
    }

    /// Adds the snapshot of a page to another page with the same tokens.
    pub(crate) fn share_snapshot(&mut self, from: PageId, to: PageId) {
        if let Some(snapshot) = self.snapshot(from) {
            self.add_snapshot(to, snapshot);
        }
    }

    /// Drops the snapshot of a page.
    pub(crate) fn drop_snapshot(&mut self, page: PageId) {
        if let Some(snapshot) = self.slot(page).snapshot.take() {
            self.snapshots.release(snapshot.id);
        }
    }

    /// Drops the snapshot of a page if it is after more than these tokens.
    pub(crate) fn drop_snapshot_after(&mut self, page: PageId, tokens: usize) {
        if self.snapshot(page).is_some_and(|snapshot| snapshot.tokens > tokens) {
            self.drop_snapshot(page);
        }
    }

    /// The snapshots of all pages, with the trie nodes of the pages.
    pub(crate) fn page_snapshots(&self) -> impl Iterator<Item = (PageId, Option<NodeId>, PageSnapshot)> {
        let pages = self.slots.iter().zip(0..);
        pages.filter_map(|(slot, page)| Some((PageId(page), slot.node, slot.snapshot?)))
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Maximum number of pages while the pool could evict instead: three quarters of the budget that other pools leave. Backends
    /// never release pages, so the rest stays for models that are loaded later.
    pub(crate) fn fair_pages(&self) -> usize {
        let mine = self.slots.len() as u64 * self.page_bytes;
        let others = self.budget.used().saturating_sub(mine);
        (self.budget.limit().saturating_sub(others) / 4 * 3 / self.page_bytes) as usize
    }

    /// Grows the pool by at least `need` pages, or as many as the budget allows, to at most `max` pages. If the backend is out of memory,
    /// the pool stays as it is, and the caller evicts.
    pub(crate) fn grow(&mut self, backend: &mut dyn Backend, need: usize, max: usize) -> Result<(), BackendError> {
        let step = (self.slots.len() as u64 / 2).min(GROWTH_BYTES / self.page_bytes);
        let need = need as u64;
        for wanted in [need.max(step), need] {
            let wanted = wanted.min(max.saturating_sub(self.slots.len()) as u64);
            let granted = self.budget.reserve(self.page_bytes, wanted) as usize;
            if granted == 0 {
                break;
            }
            let first = self.slots.len();
            match backend.grow_pages(first + granted) {
                Ok(()) => {
                    self.slots.resize(first + granted, Slot::default());
                    self.free.extend((first..first + granted).rev().map(|page| PageId(page as u32)));
                    break;
                }
                Err(error) => {
                    self.budget.release(granted as u64 * self.page_bytes);
                    if !matches!(error, BackendError::Memory { .. }) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes a free page for one sequence.
    pub(crate) fn take(&mut self) -> Option<PageId> {
        let page = self.free.pop()?;
        *self.slot(page) = Slot { holders: 1, ..Slot::default() };
        Some(page)
    }

    /// Sets whether the page lacks the rows of window layers.
    pub(crate) fn set_missing_window_rows(&mut self, page: PageId, missing_window_rows: bool) {
        self.slot(page).missing_window_rows = missing_window_rows;
    }

    /// Whether the page lacks the rows of window layers. Computed pages never do.
    pub(crate) fn is_missing_window_rows(&self, page: PageId) -> bool {
        self.slots[page.0 as usize].missing_window_rows
    }

    /// Increments the reference count of a page. Returns whether the page had no references.
    pub(crate) fn hold(&mut self, page: PageId) -> bool {
        let slot = self.slot(page);
        slot.holders += 1;
        slot.holders == 1
    }

    /// Decrements the reference count of a page. Returns whether that was the last reference. The page is then free,
    /// unless a trie node has it.
    pub(crate) fn release(&mut self, page: PageId) -> bool {
        let slot = self.slot(page);
        slot.holders -= 1;
        let (last, is_free) = (slot.holders == 0, slot.holders == 0 && slot.node.is_none());
        if is_free {
            self.set_free(page);
        }
        last
    }

    /// Sets the page's trie node. Without a node and a holder the page is free.
    pub(crate) fn set_node(&mut self, page: PageId, node: Option<NodeId>) {
        let slot = self.slot(page);
        slot.node = node;
        if node.is_none() && slot.holders == 0 {
            self.set_free(page);
        }
    }

    fn set_free(&mut self, page: PageId) {
        self.drop_snapshot(page);
        self.free.push(page);
    }

    pub(crate) fn node(&self, page: PageId) -> Option<NodeId> {
        self.slots[page.0 as usize].node
    }

    pub(crate) fn holders(&self, page: PageId) -> u32 {
        self.slots[page.0 as usize].holders
    }

    /// Whether the page may be written: exactly one sequence holds it, and it has no trie node.
    pub(crate) fn writable(&self, page: PageId) -> bool {
        self.holders(page) == 1 && self.node(page).is_none()
    }

    fn slot(&mut self, page: PageId) -> &mut Slot {
        &mut self.slots[page.0 as usize]
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.budget.release(self.slots.len() as u64 * self.page_bytes);
        self.budget.wake_all();
    }
}
