//! How rows that lie in a backend's pages become chunks that tiers keep, and rows in pages again.
//!
//! A chunk is up to four pages in the layers of one group, turned from page-major to layer-major order: first all pages' keys of
//! the group's first layer, then their values, and so on. Nothing is computed on the way, so what comes back is what was there,
//! bit for bit.
//!
//! Layers that attend to a window make a group of their own, so that tiers can keep their rows only where a sequence may go on.
//! The match over [`StateKind`] is exhaustive: a kind of state that no group is known for does not compile.

use std::sync::Arc;

use cairn_tensor::{Backend, Kv, PAGE_TOKENS, PageId, PageLayout, StateId, StateKind};
use cairn_tier::identity::CHUNK_TOKENS;
use cairn_tier::{Group, Groups, SectionKind, SectionShape};

/// Pages of a whole chunk.
pub(crate) const CHUNK_PAGES: usize = CHUNK_TOKENS / PAGE_TOKENS;

/// Rows on their way out of pages: sections one after the other, and within each the pages.
#[derive(Debug)]
pub(crate) struct Rows {
    group: Group,
    payload: Vec<u8>,
    tokens: usize,
    /// How many pages of how many sections have been copied.
    pieces: usize,
}

impl Rows {
    /// What has been copied.
    pub(crate) fn into_payload(self) -> Vec<u8> {
        self.payload
    }
}

/// A model's pages, and the chunks that are made of them.
#[derive(Debug)]
pub(crate) struct Geometry {
    layout: PageLayout,
    groups: Groups,
    /// Which layers attend to all positions, or are kept as if they did.
    full: Vec<StateId>,
    window: Vec<StateId>,
}

impl Geometry {
    pub(crate) fn new(layout: &PageLayout) -> Self {
        let groups = groups(layout);
        let states = (0..layout.kinds.len() as u32).map(StateId);
        let (window, full) = states.partition(|state| match layout.kinds[state.0 as usize] {
            StateKind::Full => false,
            StateKind::Window(_) => groups.window_tokens.is_some(),
        });
        Self { layout: layout.clone(), groups, full, window }
    }

    /// Which groups there are.
    pub(crate) fn groups(&self) -> Groups {
        self.groups
    }

    /// Payload bytes of a chunk of so many tokens.
    pub(crate) fn chunk_bytes(&self, group: Group, tokens: usize) -> u64 {
        self.parts(group)
            .map(|(state, kv)| (tokens.div_ceil(PAGE_TOKENS) * self.layout.section(state, kv).len()) as u64)
            .sum()
    }

    /// The sections of a chunk of so many tokens.
    pub(crate) fn sections(&self, group: Group, tokens: usize) -> Arc<[SectionShape]> {
        let pages = tokens.div_ceil(PAGE_TOKENS);
        let section = |(state, kv): (StateId, Kv)| SectionShape {
            layer: state.0 as u16,
            kind: match kv {
                Kv::Keys => SectionKind::Keys,
                Kv::Values => SectionKind::Values,
            },
            bytes: (pages * self.layout.section(state, kv).len()) as u32,
        };
        self.parts(group).map(section).collect()
    }

    /// Room for the rows of so many tokens in the layers of a group. Takes no time: memory is given, and cleared, as it is written.
    pub(crate) fn begin(&self, group: Group, tokens: usize) -> Rows {
        Rows { group, payload: Vec::with_capacity(self.chunk_bytes(group, tokens) as usize), tokens, pieces: 0 }
    }

    /// Copies more rows out of these pages, at least one page's of one section and not much more than `most_bytes`. Slots after the last
    /// token become zero, since they may hold rows of what was said in another conversation. Returns whether all has been copied.
    pub(crate) fn copy(&self, backend: &dyn Backend, pages: &[PageId], rows: &mut Rows, most_bytes: usize) -> bool {
        debug_assert_eq!(pages.len(), rows.tokens.div_ceil(PAGE_TOKENS), "each page has a token");
        let end = rows.payload.len().saturating_add(most_bytes);
        let pieces = self.parts(rows.group).flat_map(|part| (0..pages.len()).map(move |index| (part, index)));
        for ((state, kv), index) in pieces.skip(rows.pieces) {
            let begin = rows.payload.len();
            if begin >= end {
                return false;
            }
            rows.payload.resize(begin + self.layout.section(state, kv).len(), 0);
            let out = &mut rows.payload[begin..];
            backend.read_section(pages[index], state, kv, out);
            if index + 1 == pages.len() {
                self.clear(state, out, rows.tokens - index * PAGE_TOKENS);
            }
            rows.pieces += 1;
        }
        true
    }

    /// Copies a chunk's page number `index` into a page of the backend. The chunk has the sections that [`Geometry::sections`]
    /// gives for its tokens.
    pub(crate) fn place(&self, backend: &mut dyn Backend, group: Group, page: PageId, payload: &[u8], index: usize) {
        let pages = payload.len() / self.chunk_bytes(group, PAGE_TOKENS) as usize;
        let mut rest = payload;
        for (state, kv) in self.parts(group) {
            let bytes = self.layout.section(state, kv).len();
            let (section, after) = rest.split_at(pages * bytes);
            backend.write_section(page, state, kv, &section[index * bytes..][..bytes]);
            rest = after;
        }
    }

    /// Zeroes the slots of a section from `used` on.
    fn clear(&self, state: StateId, section: &mut [u8], used: usize) {
        let row_bytes = self.layout.row_bytes[state.0 as usize];
        for head in section.chunks_exact_mut(PAGE_TOKENS * row_bytes) {
            head[used * row_bytes..].fill(0);
        }
    }

    /// A page's sections in the layers of a group, in the order in which they lie.
    fn parts(&self, group: Group) -> impl Iterator<Item = (StateId, Kv)> + use<'_> {
        let states = match group {
            Group::Full => &self.full,
            Group::Window => &self.window,
        };
        states.iter().flat_map(|&state| Kv::ALL.map(|kv| (state, kv)))
    }
}

/// The groups of a model with these pages: all state that it has is declared there. Where all layers have a window they are kept as if they had none, since pages without
/// any row would have to stand for what lies before it. Of several windows the longest counts.
pub fn groups(layout: &PageLayout) -> Groups {
    let windows = layout.kinds.iter().map(|kind| match kind {
        StateKind::Full => None,
        StateKind::Window(tokens) => Some(u64::from(*tokens)),
    });
    let full = windows.clone().any(|window| window.is_none());
    Groups { full: true, window_tokens: windows.flatten().max().filter(|_| full) }
}
