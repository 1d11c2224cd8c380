//! How rows that lie in a backend's pages become chunks that tiers keep, and rows in pages again.
//!
//! A chunk is up to four pages, turned from page-major to layer-major order: first all pages' keys of layer 0, then their values,
//! and so on. Nothing is computed on the way, so what comes back is what was there, bit for bit.

use std::sync::Arc;

use cairn_tensor::{Backend, PAGE_TOKENS, PageId, PageLayout};
use cairn_tier::identity::CHUNK_TOKENS;
use cairn_tier::{SectionKind, SectionShape};

/// Pages of a whole chunk.
pub(crate) const CHUNK_PAGES: usize = CHUNK_TOKENS / PAGE_TOKENS;

/// A model's pages, and the chunks that are made of them.
#[derive(Debug)]
pub(crate) struct Geometry {
    layout: PageLayout,
    /// Bytes of each section of a page, in the page's order: keys of layer 0, values of layer 0, keys of layer 1...
    section_bytes: Vec<usize>,
    /// One page, while it is turned.
    page: Vec<u8>,
}

impl Geometry {
    pub(crate) fn new(layout: &PageLayout) -> Self {
        let starts: Vec<usize> = layout.sections.iter().flatten().copied().chain([layout.page_bytes]).collect();
        let section_bytes = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        Self { layout: layout.clone(), section_bytes, page: vec![0; layout.page_bytes] }
    }

    /// Payload bytes of a chunk of so many tokens.
    pub(crate) fn chunk_bytes(&self, tokens: usize) -> u64 {
        (tokens.div_ceil(PAGE_TOKENS) * self.layout.page_bytes) as u64
    }

    /// The sections of a chunk of so many tokens.
    pub(crate) fn sections(&self, tokens: usize) -> Arc<[SectionShape]> {
        let pages = tokens.div_ceil(PAGE_TOKENS);
        let kinds = [SectionKind::Keys, SectionKind::Values];
        let section = |(index, bytes): (usize, &usize)| SectionShape {
            layer: (index / 2) as u16,
            kind: kinds[index % 2],
            bytes: (pages * bytes) as u32,
        };
        self.section_bytes.iter().enumerate().map(section).collect()
    }

    /// Copies the rows of `tokens` tokens out of these pages. Slots after the last token become zero, since they may hold rows of
    /// what was said in another conversation.
    pub(crate) fn capture(&mut self, backend: &dyn Backend, pages: &[PageId], tokens: usize) -> Arc<[u8]> {
        debug_assert_eq!(pages.len(), tokens.div_ceil(PAGE_TOKENS), "each page has a token");
        let mut payload: Arc<[u8]> = std::iter::repeat_n(0, pages.len() * self.layout.page_bytes).collect();
        let out = Arc::get_mut(&mut payload).expect("nobody else has it yet");
        for (index, &page) in pages.iter().enumerate() {
            backend.read_page(page, &mut self.page);
            let used = (tokens - index * PAGE_TOKENS).min(PAGE_TOKENS);
            for range in self.layout.slots(used..PAGE_TOKENS) {
                self.page[range].fill(0);
            }
            let (mut from, mut to) = (0, 0);
            for &bytes in &self.section_bytes {
                let start = to + index * bytes;
                out[start..start + bytes].copy_from_slice(&self.page[from..from + bytes]);
                from += bytes;
                to += pages.len() * bytes;
            }
        }
        payload
    }

    /// Copies a chunk's page number `index` into a page of the backend. The chunk must have the sections that
    /// [`Geometry::sections`] gives for its tokens.
    pub(crate) fn place(&mut self, backend: &mut dyn Backend, page: PageId, payload: &[u8], index: usize) {
        let pages = payload.len() / self.layout.page_bytes;
        let (mut from, mut to) = (0, 0);
        for &bytes in &self.section_bytes {
            let start = from + index * bytes;
            self.page[to..to + bytes].copy_from_slice(&payload[start..start + bytes]);
            from += pages * bytes;
            to += bytes;
        }
        backend.write_page(page, &self.page);
    }
}
