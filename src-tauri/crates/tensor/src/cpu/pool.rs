//! The page pool: slabs of zeroed memory, each with room for a number of pages.
//!
//! Slabs are taken whole and never given back while the model is loaded; the system backs their memory page by page as it
//! is first touched, so room that is not used costs nothing.

use std::ops::Range;

use crate::backend::BackendError;
use crate::page::{PAGE_TOKENS, PageId, PageLayout};
use crate::plan::StateId;
use crate::team::Worker;
use crate::team::share::{Read, Refused, Shared, Write};

/// Bytes of a key's or value's element: f16.
pub(super) const ELEMENT_BYTES: usize = size_of::<u16>();
/// Bytes that are asked of the system at once, unless one page is larger.
const SLAB_BYTES: usize = 16 << 20;

/// Pages of one layout.
#[derive(Debug)]
pub(super) struct Pool {
    layout: PageLayout,
    /// Elements of a page.
    page_len: usize,
    pages_per_slab: usize,
    slabs: Vec<Shared<u16>>,
    /// Pages that may be used.
    pages: usize,
    threads: usize,
}

impl Pool {
    /// An empty pool for teams of up to `threads` threads.
    pub(super) fn new(layout: PageLayout, threads: usize) -> Self {
        let page_len = layout.page_bytes / ELEMENT_BYTES;
        let pages_per_slab = (SLAB_BYTES / layout.page_bytes.max(1)).max(1);
        Self { layout, page_len, pages_per_slab, slabs: Vec::new(), pages: 0, threads }
    }

    /// Where things lie in a page.
    pub(super) fn layout(&self) -> &PageLayout {
        &self.layout
    }

    /// Number of pages.
    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    /// Makes room for at least this many pages.
    pub(super) fn grow(&mut self, pages: usize) -> Result<(), BackendError> {
        while self.slabs.len() * self.pages_per_slab < pages {
            let slab = Shared::zeroed(self.pages_per_slab, self.page_len, self.threads);
            let refused = |Refused(need_bytes)| BackendError::Memory { what: "pages", need_bytes };
            self.slabs.push(slab.map_err(refused)?);
        }
        self.pages = self.pages.max(pages);
        Ok(())
    }

    /// The slab of a page, and the page's first element there.
    fn place(&self, page: PageId) -> (usize, usize) {
        let page = page.0 as usize;
        (page / self.pages_per_slab, page % self.pages_per_slab * self.page_len)
    }

    /// A layer's keys and values of a page, to read: the whole of the two sections, and the range of one head in each.
    pub(super) fn read(&self, worker: &Worker<'_>, page: PageId, state: StateId, head: usize) -> Section<'_> {
        let (slab, first) = self.place(page);
        let sections = self.layout.sections[state.0 as usize].map(|bytes| bytes / ELEMENT_BYTES);
        let head_len = self.layout.row_bytes[state.0 as usize] / ELEMENT_BYTES * PAGE_TOKENS;
        let [k, v] = sections.map(|section| {
            let start = section - sections[0] + head * head_len;
            start..start + head_len
        });
        // One claim from the head's keys to its values costs less than two, and nobody writes between them.
        let whole = first + sections[0] + k.start..first + sections[0] + v.end;
        let offset = k.start;
        let part = self.slabs[slab].read(worker, whole);
        Section { part, k: k.start - offset..k.end - offset, v: v.start - offset..v.end - offset }
    }

    /// One slot's key (0) or value (1) for one head of a layer, to write.
    pub(super) fn write(&self, worker: &Worker<'_>, page: PageId, place: Slot) -> Write<'_, u16> {
        let (slab, first) = self.place(page);
        let row_len = self.layout.row_bytes[place.state.0 as usize] / ELEMENT_BYTES;
        let section = self.layout.sections[place.state.0 as usize][place.section] / ELEMENT_BYTES;
        let start = first + section + (place.head * PAGE_TOKENS + place.slot % PAGE_TOKENS) * row_len;
        self.slabs[slab].write(worker, start..start + row_len)
    }

    /// Copies the first `tokens` slots of a page to another, in all layers.
    pub(super) fn copy(&mut self, from: PageId, to: PageId, tokens: usize) {
        let ((source, from), (target, to)) = (self.place(from), self.place(to));
        let elements = |range: Range<usize>| range.start / ELEMENT_BYTES..range.end / ELEMENT_BYTES;
        for range in self.layout.slots(0..tokens).map(elements) {
            let part = from + range.start..from + range.end;
            if let Ok([source, target]) = self.slabs.get_disjoint_mut([source, target]) {
                target.all_mut()[to + range.start..to + range.end].copy_from_slice(&source.all_mut()[part]);
            } else {
                self.slabs[source].all_mut().copy_within(part, to + range.start);
            }
        }
    }

    /// Reads a page's bytes.
    pub(super) fn read_bytes(&self, page: PageId, out: &mut [u8]) {
        assert_eq!(out.len(), self.layout.page_bytes, "a whole page is read");
        let (slab, first) = self.place(page);
        let mut elements = [0; 512];
        for (index, bytes) in out.chunks_mut(elements.len() * ELEMENT_BYTES).enumerate() {
            let elements = &mut elements[..bytes.len() / ELEMENT_BYTES];
            let start = first + index * 512;
            self.slabs[slab].copy_to(start..start + elements.len(), elements);
            for (bytes, element) in bytes.chunks_exact_mut(ELEMENT_BYTES).zip(elements) {
                bytes.copy_from_slice(&element.to_le_bytes());
            }
        }
    }

    /// Writes a page's bytes.
    pub(super) fn write_bytes(&mut self, page: PageId, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.layout.page_bytes, "a whole page is written");
        let (slab, first) = self.place(page);
        let elements = &mut self.slabs[slab].all_mut()[first..first + self.page_len];
        for (bytes, element) in bytes.as_chunks().0.iter().zip(elements) {
            *element = u16::from_le_bytes(*bytes);
        }
    }
}

/// A slot's place in a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The layer.
    pub(super) state: StateId,
    /// 0 for keys, 1 for values.
    pub(super) section: usize,
    /// Key/value head.
    pub(super) head: usize,
    /// The row's index in its sequence.
    pub(super) slot: usize,
}

/// One head's keys and values of a page.
#[derive(Debug)]
pub(super) struct Section<'a> {
    part: Read<'a, u16>,
    k: Range<usize>,
    v: Range<usize>,
}

impl Section<'_> {
    /// `[64, head_dim]`.
    pub(super) fn keys(&self) -> &[u16] {
        &self.part[self.k.clone()]
    }

    /// `[64, head_dim]`.
    pub(super) fn values(&self) -> &[u16] {
        &self.part[self.v.clone()]
    }
}
