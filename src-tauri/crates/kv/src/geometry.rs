//! Conversion between pages of a backend and chunks of the tiers.
//!
//! A chunk has up to four pages of the layers of one group, in layer-major order: the keys of all pages in the group's first layer, then
//! their values, and so on, and then the states of recurrent layers after the chunk's last token. Bytes are only copied, so
//! restored rows are identical to the original, bit for bit.
//!
//! Window layers and states form a group of their own, so that tiers can store them only where a sequence may continue, and a restore
//! reads only those at its end. The match over
//! [`StateKind`] is exhaustive: a new kind of state does not compile until it has a group.

use std::sync::Arc;

use cairn_tensor::{Backend, Kv, PAGE_TOKENS, PageId, PageLayout, RecurrentId, SnapshotId, StateId, StateKind};
use cairn_tier::identity::CHUNK_TOKENS;
use cairn_tier::{Group, Groups, SectionKind, SectionShape};

/// Pages of a full chunk.
pub(crate) const CHUNK_PAGES: usize = CHUNK_TOKENS / PAGE_TOKENS;
/// Most chunks between two stored states: 4,096 tokens.
const MAX_STATE_CHUNKS: usize = 16;

/// Rows that are being copied from pages to one buffer. The buffer is ordered by section (keys or values of a layer),
/// then by page. States are behind all rows.
#[derive(Debug)]
pub(crate) struct Rows {
    group: Group,
    payload: Vec<u8>,
    tokens: usize,
    /// Number of copied pieces. A piece is one section of one page, or one state.
    pieces: usize,
    /// States after the last token.
    snapshot: Option<SnapshotId>,
}

impl Rows {
    /// The copied bytes.
    pub(crate) fn into_payload(self) -> Vec<u8> {
        self.payload
    }
}

/// Layout of a model's pages and chunks.
#[derive(Debug)]
pub(crate) struct Geometry {
    layout: PageLayout,
    groups: Groups,
    /// Layers with full attention, and those with a window if all layers are one group.
    full: Vec<StateId>,
    /// Layers with a sliding window, if they are a group of their own.
    window: Vec<StateId>,
}

impl Geometry {
    pub(crate) fn new(layout: &PageLayout) -> Self {
        let (groups, windows) = (groups(layout), window_tokens(layout));
        let states = (0..layout.kinds.len() as u32).map(StateId);
        let (window, full) = states.partition(|state| match layout.kinds[state.0 as usize] {
            StateKind::Full | StateKind::Causal | StateKind::Around(_) | StateKind::Region => false,
            StateKind::Window(_) | StateKind::Chunk(_) => windows.is_some(),
        });
        Self { layout: layout.clone(), groups, full, window }
    }

    /// The layer groups.
    pub(crate) fn groups(&self) -> Groups {
        self.groups
    }

    /// Returns the payload size of a chunk of `tokens` tokens, in bytes.
    pub(crate) fn chunk_bytes(&self, group: Group, tokens: usize) -> u64 {
        let rows = self.rows_bytes(group, tokens.div_ceil(PAGE_TOKENS));
        let states = self.states(group).map(|(_, bytes)| bytes).sum::<usize>();
        (rows + states) as u64
    }

    /// Returns the sections of a chunk of `tokens` tokens.
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
        let state = |(state, bytes): (RecurrentId, usize)| SectionShape {
            layer: state.0 as u16,
            kind: SectionKind::State,
            bytes: bytes as u32,
        };
        self.parts(group).map(section).chain(self.states(group).map(state)).collect()
    }

    /// Bytes of the rows of these many pages.
    fn rows_bytes(&self, group: Group, pages: usize) -> usize {
        self.parts(group).map(|(state, kv)| pages * self.layout.section(state, kv).len()).sum()
    }

    /// The recurrent states that a chunk has, and their sizes in bytes.
    fn states(&self, group: Group) -> impl Iterator<Item = (RecurrentId, usize)> + use<'_> {
        let sections = self.layout.snapshot.sections.iter().filter(move |_| group == Group::Window);
        (0..).map(RecurrentId).zip(sections.map(std::ops::Range::len))
    }

    /// Starts copying the rows of `tokens` tokens in a layer group, and the snapshot after them. The buffer is allocated but its
    /// memory is not touched yet.
    pub(crate) fn begin(&self, group: Group, tokens: usize, snapshot: Option<SnapshotId>) -> Rows {
        let payload = Vec::with_capacity(self.chunk_bytes(group, tokens) as usize);
        Rows { group, payload, tokens, pieces: 0, snapshot }
    }

    /// Copies about `max_bytes` more from these pages, at least one piece. Clears the slots after the last token, which may hold rows
    /// of another conversation. Returns whether the copy is complete.
    pub(crate) fn copy(&self, backend: &dyn Backend, pages: &[PageId], rows: &mut Rows, max_bytes: usize) -> bool {
        debug_assert_eq!(pages.len(), rows.tokens.div_ceil(PAGE_TOKENS), "each page has a token");
        let end = rows.payload.len().saturating_add(max_bytes);
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
                self.clear(state, kv, out, rows.tokens - index * PAGE_TOKENS);
            }
            rows.pieces += 1;
        }
        let Some(snapshot) = rows.snapshot else { return true };
        let row_pieces = self.parts(rows.group).count() * pages.len();
        for (state, bytes) in self.states(rows.group).skip(rows.pieces - row_pieces) {
            let begin = rows.payload.len();
            if begin >= end {
                return false;
            }
            rows.payload.resize(begin + bytes, 0);
            backend.read_snapshot(snapshot, state, &mut rows.payload[begin..]);
            rows.pieces += 1;
        }
        true
    }

    /// Copies page `index` of a chunk to a page of the backend. The chunk has the sections of [`Geometry::sections`].
    pub(crate) fn place(&self, backend: &mut dyn Backend, group: Group, page: PageId, payload: &[u8], index: usize) {
        let states: usize = self.states(group).map(|(_, bytes)| bytes).sum();
        // A group without rows has only states.
        let pages = (payload.len() - states).checked_div(self.rows_bytes(group, 1)).unwrap_or(0);
        let mut rest = payload;
        for (state, kv) in self.parts(group) {
            let bytes = self.layout.section(state, kv).len();
            let (section, after) = rest.split_at(pages * bytes);
            backend.write_section(page, state, kv, &section[index * bytes..][..bytes]);
            rest = after;
        }
    }

    /// Copies the states of a chunk to a snapshot.
    pub(crate) fn place_states(&self, backend: &mut dyn Backend, group: Group, snapshot: SnapshotId, payload: &[u8]) {
        let bytes: usize = self.states(group).map(|(_, bytes)| bytes).sum();
        let mut rest = &payload[payload.len() - bytes..];
        for (state, bytes) in self.states(group) {
            let (section, after) = rest.split_at(bytes);
            backend.write_snapshot(snapshot, state, section);
            rest = after;
        }
    }

    /// Clears the slots of a section from `used` on.
    fn clear(&self, state: StateId, kv: Kv, section: &mut [u8], used: usize) {
        let row_bytes = self.layout.row_bytes[state.0 as usize][kv as usize];
        for head in section.chunks_exact_mut(PAGE_TOKENS * row_bytes) {
            head[used * row_bytes..].fill(0);
        }
    }

    /// A page's sections in the layers of a group, in storage order. Values that are parts of the keys have none.
    fn parts(&self, group: Group) -> impl Iterator<Item = (StateId, Kv)> + use<'_> {
        let states = match group {
            Group::Full => &self.full,
            Group::Window => &self.window,
        };
        let all = states.iter().flat_map(|&state| Kv::ALL.map(|kv| (state, kv)));
        all.filter(|&(state, kv)| !self.layout.section(state, kv).is_empty())
    }
}

/// The layer groups of a page layout. States of recurrent layers are stored like rows of a window of one token.
pub fn groups(layout: &PageLayout) -> Groups {
    let recurrent = layout.snapshot.bytes > 0;
    let window_tokens = window_tokens(layout).map(|tokens| tokens as u64).or(recurrent.then_some(1));
    Groups { full: true, window_tokens, recurrent }
}

/// Distance between tokens after which recurrent states are stored and stay in memory: whole chunks with rows of about as many bytes
/// as the states, so that these do not multiply the bytes that are written and held. An edit recomputes at most this many tokens more.
pub(crate) fn state_stride(layout: &PageLayout) -> usize {
    let chunk_bytes = CHUNK_PAGES * layout.page_bytes.max(1);
    let chunks = layout.snapshot.bytes.div_ceil(chunk_bytes).max(1).next_power_of_two();
    CHUNK_TOKENS * chunks.min(MAX_STATE_CHUNKS)
}

/// Size of the window of window layers that are a group of their own. Of several windows, the longest counts. If all layers have a
/// window, they are stored like full layers, because otherwise pages before the window would have no rows at all.
pub(crate) fn window_tokens(layout: &PageLayout) -> Option<usize> {
    let windows = layout.kinds.iter().map(|kind| match kind {
        // Only rows of encoders attend to later rows, and they are not stored.
        StateKind::Full | StateKind::Causal | StateKind::Around(_) | StateKind::Region => None,
        // The rows of a chunk up to a position are among that many last ones.
        StateKind::Window(tokens) | StateKind::Chunk(tokens) => Some(*tokens as usize),
    });
    let full = windows.clone().any(|window| window.is_none());
    windows.flatten().max().filter(|_| full)
}

#[cfg(test)]
mod tests {
    use cairn_gguf::DType;
    use cairn_tensor::{Limits, Plan, Reference, State, Values};

    use super::*;

    #[test]
    fn value_in_a_key_is_stored_once() {
        let mut plan = Plan::default();
        let kind = StateKind::Full;
        plan.state(State { kind, kv_heads: 1, head_dim: 96, values: Values::InKeys(64) });
        plan.state(State { kind, kv_heads: 2, head_dim: 96, values: Values::Rows(32) });
        let layout = plan.page_layout(DType::F16);
        let mut backend = Reference::with_kv_type(DType::F16);
        backend.prepare(plan, Limits { rows: 1, logit_rows: 1 }).expect("the states are sound");
        backend.grow_pages(4).expect("a few pages fit");
        let geometry = Geometry::new(&layout);
        let sections = geometry.sections(Group::Full, 100);
        let found: Vec<_> = sections.iter().map(|section| (section.layer, section.kind, section.bytes)).collect();
        let pages = 2 * PAGE_TOKENS as u32;
        let expected = [
            (0, SectionKind::Keys, pages * 96 * 2),
            (1, SectionKind::Keys, pages * 2 * 96 * 2),
            (1, SectionKind::Values, pages * 2 * 32 * 2),
        ];
        assert_eq!(found, expected, "each row once, with its own size");

        let bytes =
            |seed: usize| (0..layout.page_bytes).map(|at| ((at * 31 + seed) % 251 + 1) as u8).collect::<Vec<u8>>();
        let pages = [0, 1].map(PageId);
        pages.iter().for_each(|page| backend.write_page(*page, &bytes(page.0 as usize)));
        let mut rows = geometry.begin(Group::Full, 100, None);
        assert!(geometry.copy(&backend, &pages, &mut rows, usize::MAX), "all at once");
        let payload = rows.into_payload();
        assert_eq!(payload.len() as u64, geometry.chunk_bytes(Group::Full, 100), "the size of a chunk");
        for (index, page) in [2, 3].map(PageId).into_iter().enumerate() {
            geometry.place(&mut backend, Group::Full, page, &payload, index);
            let (mut found, mut expected) = (vec![0; layout.page_bytes], bytes(index));
            backend.read_page(page, &mut found);
            if index == 1 {
                // Slots after the last token are cleared.
                layout.slots(100 - PAGE_TOKENS..PAGE_TOKENS).for_each(|range| expected[range].fill(0));
            }
            assert!(found == expected, "page {index} has its rows");
        }
    }
}
