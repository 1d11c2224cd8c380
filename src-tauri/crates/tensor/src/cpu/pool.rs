//! The page pool: slabs of zeroed memory, each with room for a number of pages.
//!
//! Slabs are allocated whole and freed when the model unloads. The system backs their memory page by page at first
//! touch, so unused space costs nothing.

use std::ops::Range;

use crate::backend::BackendError;
use crate::page::{Kv, PAGE_TOKENS, PageId, PageLayout};
use crate::state::StateId;
use crate::team::Worker;
use crate::team::share::{OutOfMemory, Read, Shared, Write};

/// Bytes of a slab, unless one page is larger.
const SLAB_BYTES: usize = 16 << 20;

/// Pages of one layout.
#[derive(Debug)]
pub(super) struct Pool {
    layout: PageLayout,
    pages_per_slab: usize,
    slabs: Vec<Shared<u8>>,
    /// Number of usable pages.
    pages: usize,
    threads: usize,
}

impl Pool {
    /// Creates an empty pool for teams of up to `threads` threads.
    pub(super) fn new(layout: PageLayout, threads: usize) -> Self {
        let pages_per_slab = (SLAB_BYTES / layout.page_bytes.max(1)).max(1);
        Self { layout, pages_per_slab, slabs: Vec::new(), pages: 0, threads }
    }

    /// Layout of a page.
    pub(super) fn layout(&self) -> &PageLayout {
        &self.layout
    }

    /// Number of pages.
    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    /// Grows the pool to at least this many pages.
    pub(super) fn grow(&mut self, pages: usize) -> Result<(), BackendError> {
        while self.slabs.len() * self.pages_per_slab < pages {
            let slab = Shared::zeroed(self.pages_per_slab, self.layout.page_bytes, self.threads);
            let refused = |OutOfMemory(need_bytes)| BackendError::Memory { what: "pages", need_bytes };
            self.slabs.push(slab.map_err(refused)?);
        }
        self.pages = self.pages.max(pages);
        Ok(())
    }

    /// Returns the slab of a page, and the offset of the page in it.
    fn place(&self, page: PageId) -> (usize, usize) {
        let page = page.0 as usize;
        (page / self.pages_per_slab, page % self.pages_per_slab * self.layout.page_bytes)
    }

    /// A layer's keys and values of a page, to read: the whole of the two sections, and the range of one head in each. If values are
    /// parts of the keys, their range begins with the first value.
    pub(super) fn read(&self, worker: &Worker<'_>, page: PageId, state: StateId, head: usize) -> Section<'_> {
        let (slab, first) = self.place(page);
        let sections = self.layout.sections[state.0 as usize];
        let [k, v] = Kv::ALL.map(|kv| {
            let head_bytes = self.layout.row_bytes[state.0 as usize][kv as usize] * PAGE_TOKENS;
            let start = sections[kv as usize] - sections[0] + head * head_bytes;
            start..start + head_bytes
        });
        let v = if v.is_empty() { k.start + self.layout.value_offsets[state.0 as usize]..k.end } else { v };
        // One claim over keys and values is cheaper than two, and no thread writes between them.
        let whole = first + sections[0] + k.start..first + sections[0] + v.end;
        let offset = k.start;
        let part = self.slabs[slab].read(worker, whole);
        Section { part, k: k.start - offset..k.end - offset, v: v.start - offset..v.end - offset }
    }

    /// Claims the row at `place` in a page for writing: the key or value of one slot, for one head of a layer.
    pub(super) fn write(&self, worker: &Worker<'_>, page: PageId, place: Slot) -> Write<'_, u8> {
        let (slab, first) = self.place(page);
        let row_bytes = self.layout.row_bytes[place.state.0 as usize][place.kv as usize];
        let section = self.layout.sections[place.state.0 as usize][place.kv as usize];
        let start = first + section + (place.head * PAGE_TOKENS + place.slot % PAGE_TOKENS) * row_bytes;
        self.slabs[slab].write(worker, start..start + row_bytes)
    }

    /// Copies the first `tokens` slots of a page to another, in all layers.
    pub(super) fn copy(&mut self, from: PageId, to: PageId, tokens: usize) {
        let ((source, from), (target, to)) = (self.place(from), self.place(to));
        for range in self.layout.slots(0..tokens) {
            let part = from + range.start..from + range.end;
            if let Ok([source, target]) = self.slabs.get_disjoint_mut([source, target]) {
                target.all_mut()[to + range.start..to + range.end].copy_from_slice(&source.all_mut()[part]);
            } else {
                self.slabs[source].all_mut().copy_within(part, to + range.start);
            }
        }
    }

    /// Reads some of a page's bytes.
    pub(super) fn read_bytes(&self, page: PageId, range: Range<usize>, out: &mut [u8]) {
        let (slab, first) = self.place(page);
        self.slabs[slab].copy_to(first + range.start..first + range.end, out);
    }

    /// Writes some of a page's bytes.
    pub(super) fn write_bytes(&mut self, page: PageId, range: Range<usize>, bytes: &[u8]) {
        let (slab, first) = self.place(page);
        self.slabs[slab].all_mut()[first + range.start..first + range.end].copy_from_slice(bytes);
    }
}

/// Address of one key or value row: layer, keys or values, head and slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The layer.
    pub(super) state: StateId,
    /// Key or value.
    pub(super) kv: Kv,
    /// Key/value head.
    pub(super) head: usize,
    /// The row's index in its sequence.
    pub(super) slot: usize,
}

/// One head's keys and values of a page.
#[derive(Debug)]
pub(super) struct Section<'a> {
    part: Read<'a, u8>,
    k: Range<usize>,
    v: Range<usize>,
}

impl Section<'_> {
    /// Rows of `[64, head_dim]`.
    pub(super) fn keys(&self) -> &[u8] {
        &self.part[self.k.clone()]
    }

    /// Rows of `[64, value_dim]`, with the distance of keys if they are parts of them.
    pub(super) fn values(&self) -> &[u8] {
        &self.part[self.v.clone()]
    }
}
