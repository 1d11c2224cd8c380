//! The pages of one backend: which are free, who holds the others, and growth within the budget.
//!
//! **Invariant:** a page is free exactly when no sequence holds it and no trie node names it.

use std::sync::Arc;

use cairn_tensor::{Backend, BackendError, PageId, PageLayout};

use crate::budget::Budget;
use crate::trie::NodeId;

/// The pool grows by half of its size, but by no more than this at once, so that a small chat takes little of the budget.
const GROWTH_BYTES: u64 = 64 << 20;

/// Who refers to a page.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Sequences that hold it.
    holders: u32,
    /// The trie node that names it.
    node: Option<NodeId>,
    /// Whether its rows in layers with a window are not there.
    windowless: bool,
}

/// All pages that the backend has been asked for.
#[derive(Debug)]
pub(crate) struct Pool {
    slots: Vec<Slot>,
    free: Vec<PageId>,
    page_bytes: u64,
    budget: Arc<Budget>,
}

impl Pool {
    pub(crate) fn new(layout: &PageLayout, budget: Arc<Budget>) -> Self {
        // A model without attention state has empty pages; a byte each keeps the arithmetic whole.
        Self { slots: Vec::new(), free: Vec::new(), page_bytes: layout.page_bytes.max(1) as u64, budget }
    }

    /// Pages in all.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Pages that nothing refers to.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The most pages that this pool may have while it could evict instead: three quarters of what other pools leave. Backends do
    /// not give pages back, so the rest stays for models that are loaded later.
    pub(crate) fn fair_pages(&self) -> usize {
        let mine = self.slots.len() as u64 * self.page_bytes;
        let others = self.budget.used().saturating_sub(mine);
        (self.budget.limit().saturating_sub(others) / 4 * 3 / self.page_bytes) as usize
    }

    /// Asks the backend for at least `need` more pages, or for as many as the budget still has, up to `most` pages in all. A
    /// backend that runs out of memory counts as a budget that is spent: the caller then evicts.
    pub(crate) fn grow(&mut self, backend: &mut dyn Backend, need: usize, most: usize) -> Result<(), BackendError> {
        let step = (self.slots.len() as u64 / 2).min(GROWTH_BYTES / self.page_bytes);
        let need = need as u64;
        for wanted in [need.max(step), need] {
            let wanted = wanted.min(most.saturating_sub(self.slots.len()) as u64);
            let granted = self.budget.take(self.page_bytes, wanted) as usize;
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
                    self.budget.give(granted as u64 * self.page_bytes);
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

    /// Says whether the page lacks its rows in layers with a window.
    pub(crate) fn set_windowless(&mut self, page: PageId, windowless: bool) {
        self.slot(page).windowless = windowless;
    }

    /// Whether the page lacks its rows in layers with a window. Pages that were computed never do.
    pub(crate) fn is_windowless(&self, page: PageId) -> bool {
        self.slots[page.0 as usize].windowless
    }

    /// Adds a holder; says whether it is the first.
    pub(crate) fn hold(&mut self, page: PageId) -> bool {
        let slot = self.slot(page);
        slot.holders += 1;
        slot.holders == 1
    }

    /// Removes a holder; says whether it was the last. Without a node the page is free then.
    pub(crate) fn release(&mut self, page: PageId) -> bool {
        let slot = self.slot(page);
        slot.holders -= 1;
        let last = slot.holders == 0;
        if last && slot.node.is_none() {
            self.free.push(page);
        }
        last
    }

    /// Says which trie node names the page. Without a node and without a holder it is free.
    pub(crate) fn set_node(&mut self, page: PageId, node: Option<NodeId>) {
        let slot = self.slot(page);
        slot.node = node;
        if node.is_none() && slot.holders == 0 {
            self.free.push(page);
        }
    }

    pub(crate) fn node(&self, page: PageId) -> Option<NodeId> {
        self.slots[page.0 as usize].node
    }

    pub(crate) fn holders(&self, page: PageId) -> u32 {
        self.slots[page.0 as usize].holders
    }

    /// Whether exactly one sequence holds the page and the trie does not know it, so that it may be written.
    pub(crate) fn writable(&self, page: PageId) -> bool {
        self.holders(page) == 1 && self.node(page).is_none()
    }

    fn slot(&mut self, page: PageId) -> &mut Slot {
        &mut self.slots[page.0 as usize]
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.budget.give(self.slots.len() as u64 * self.page_bytes);
    }
}
