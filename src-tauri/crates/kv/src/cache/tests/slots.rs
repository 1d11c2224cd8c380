//! A mock backend that has only pages. Like real keys and values, a slot is a digest of its token and of the rows that its layers attend
//! to, so a right token after a wrong prefix is detected.

use std::ops::Range;

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, BackendError, Batch, BufferId, Caps, Kv, Limits, PAGE_TOKENS, PageId, PageLayout, Plan, PlanId, Recurrent,
    RecurrentId, SnapshotId, SnapshotTable, State, StateId, StateKind, Weight, WeightId,
};

use crate::geometry::CHUNK_PAGES;

/// Size of a slot's key or value.
const ROW_BYTES: usize = 32;

/// Elements of the recurrent states. A snapshot is as large as a page of one layer.
const RECURRENT_ELEMENTS: [usize; 2] = [16, 1008];

/// The layers of a model: a full one, and others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layers {
    /// Window of a window layer, if there is one.
    pub(super) window: Option<usize>,
    /// Whether the window is a chunk that begins at a multiple of its size.
    pub(super) is_chunk: bool,
    /// Whether there are recurrent layers.
    pub(super) recurrent: bool,
    /// If not zero, the states have as many bytes as the pages of these many chunks.
    pub(super) state_chunks: usize,
}

impl Layers {
    pub(super) fn layout(self) -> PageLayout {
        let window = if self.is_chunk { StateKind::Chunk } else { StateKind::Window };
        let kinds = [Some(StateKind::Full), self.window.map(|tokens| window(tokens as u32))];
        let state = |kind| State::new(kind, 1, ROW_BYTES / 2);
        let pages = PageLayout::new(&kinds.into_iter().flatten().map(state).collect::<Vec<_>>(), DType::F16);
        let chunk = CHUNK_PAGES * pages.page_bytes / size_of::<f32>();
        let elements = match (self.state_chunks, RECURRENT_ELEMENTS) {
            (0, elements) => elements,
            (chunks, [first, _]) => [first, chunks * chunk - first],
        };
        let recurrent = elements.map(|elements| Recurrent { elements });
        pages.with_recurrent(if self.recurrent { &recurrent } else { &[] })
    }
}

/// The mock backend.
#[derive(Default)]
pub(super) struct Slots {
    /// Slots by page and layer.
    pub(super) pages: Vec<[[u64; PAGE_TOKENS]; 2]>,
    pub(super) memory_pages: Option<usize>,
    /// Recurrent states by snapshot: digests of all tokens.
    pub(super) snapshots: Vec<[u64; 2]>,
    pub(super) window: Option<usize>,
    pub(super) is_chunk: bool,
}

impl Slots {
    /// Computes one token like a model: reads earlier slots through the page table, and writes the next one.
    pub(super) fn compute(&mut self, pages: &[PageId], slot: usize, token: u32) {
        let rows = rows(self.first(slot), slot, token, |layer, slot| self.at(pages, layer, slot));
        for (layer, row) in rows.into_iter().enumerate() {
            self.pages[pages[slot / PAGE_TOKENS].0 as usize][layer][slot % PAGE_TOKENS] = row;
        }
    }

    /// Checks that these pages have the rows of these tokens to which the next token attends.
    pub(super) fn check(&self, pages: &[PageId], tokens: &[u32]) {
        let mut expected: [Vec<u64>; 2] = Default::default();
        for (slot, &token) in tokens.iter().enumerate() {
            let computed = rows(self.first(slot), slot, token, |layer, slot| expected[layer][slot]);
            expected.iter_mut().zip(computed).for_each(|(layer, row)| layer.push(row));
        }
        let [full, windowed] = expected;
        for (slot, (full, windowed)) in full.into_iter().zip(windowed).enumerate() {
            assert_eq!(self.at(pages, 0, slot), full, "slot {slot} of {}, full layer", tokens.len());
            if self.first(tokens.len()).is_some_and(|first| slot >= first) {
                assert_eq!(self.at(pages, 1, slot), windowed, "slot {slot} of {}, window layer", tokens.len());
            }
        }
    }

    /// Returns the first slot of the window layer that a slot attends to.
    fn first(&self, slot: usize) -> Option<usize> {
        self.window.map(|window| if self.is_chunk { slot / window * window } else { (slot + 1).saturating_sub(window) })
    }

    /// Computes the recurrent states after each of these tokens, from one snapshot to others.
    pub(super) fn compute_states(&mut self, table: &SnapshotTable, first: usize, tokens: &[u32]) {
        let mut state = self.state(table.from);
        for (slot, &token) in (first..).zip(tokens) {
            state = digest(state, u64::from(token));
            for (_, id) in table.to.iter().filter(|(after, _)| *after as usize == slot + 1) {
                self.snapshots[id.0 as usize] = [state, !state];
            }
        }
    }

    /// Checks that a snapshot has the states after these tokens.
    pub(super) fn check_states(&self, snapshot: Option<SnapshotId>, tokens: &[u32]) {
        let expected = tokens.iter().fold(0, |state, &token| digest(state, u64::from(token)));
        assert_eq!(self.state(snapshot), expected, "states after {} tokens", tokens.len());
    }

    fn state(&self, snapshot: Option<SnapshotId>) -> u64 {
        let [state, inverse] = snapshot.map_or([0, !0], |id| self.snapshots[id.0 as usize]);
        assert_eq!(state, !inverse, "both states are of one token");
        state
    }

    fn at(&self, pages: &[PageId], layer: usize, slot: usize) -> u64 {
        self.pages[pages[slot / PAGE_TOKENS].0 as usize][layer][slot % PAGE_TOKENS]
    }
}

/// The rows of both layers at a slot, from the rows before it. The window layer reads the first, the middle and the last row of its
/// window.
fn rows(first: Option<usize>, slot: usize, token: u32, at: impl Fn(usize, usize) -> u64) -> [u64; 2] {
    let before = if slot == 0 { 0 } else { at(0, slot - 1) };
    let mut seen = 0;
    if let Some(first) = first {
        for slot in [first, first.midpoint(slot), slot.saturating_sub(1)].into_iter().filter(|&other| other < slot) {
            seen = digest(seen, at(1, slot));
        }
    }
    let row = digest(digest(before, seen), u64::from(token));
    [row, digest(row, 1)]
}

fn digest(before: u64, next: u64) -> u64 {
    (before ^ next).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31)
}

impl Backend for Slots {
    fn caps(&self) -> Caps {
        Caps { backend: "slots", variant: "", numerics_rev: 0, kv_type: DType::F16 }
    }

    fn upload(&mut self, _: Weight) -> Result<WeightId, BackendError> {
        unreachable!("the cache has no weights")
    }

    fn prepare(&mut self, _: Plan, _: Limits) -> Result<PlanId, BackendError> {
        unreachable!("the cache has no plan")
    }

    fn grow_pages(&mut self, pages: usize) -> Result<(), BackendError> {
        if self.memory_pages.is_some_and(|max| pages > max) {
            return Err(BackendError::Memory { what: "pages", need_bytes: 0 });
        }
        self.pages.resize(pages.max(self.pages.len()), [[0; PAGE_TOKENS]; 2]);
        Ok(())
    }

    fn run(&mut self, _: PlanId, _: &Batch) -> Result<(), BackendError> {
        unreachable!("the cache runs nothing")
    }

    fn read(&self, _: PlanId, _: BufferId, _: Range<usize>, _: &mut [f32]) {
        unreachable!("the cache reads no buffer")
    }

    fn copy_page(&mut self, from: PageId, to: PageId, tokens: usize) {
        let source = self.pages[from.0 as usize];
        for (target, source) in self.pages[to.0 as usize].iter_mut().zip(source) {
            // The rest of the target gets an impossible value, so that a copy that is too short is detected.
            *target = [u64::MAX; PAGE_TOKENS];
            target[..tokens].copy_from_slice(&source[..tokens]);
        }
    }

    fn read_section(&self, page: PageId, state: StateId, kind: Kv, out: &mut [u8]) {
        out.fill(0);
        if kind == Kv::Keys {
            let slots = self.pages[page.0 as usize][state.0 as usize];
            for (row, slot) in out.chunks_exact_mut(ROW_BYTES).zip(slots) {
                row[..8].copy_from_slice(&slot.to_le_bytes());
            }
        }
    }

    fn write_section(&mut self, page: PageId, state: StateId, kind: Kv, bytes: &[u8]) {
        if kind == Kv::Keys {
            let slots = &mut self.pages[page.0 as usize][state.0 as usize];
            for (row, slot) in bytes.chunks_exact(ROW_BYTES).zip(slots) {
                *slot = u64::from_le_bytes(row[..8].try_into().expect("a row has more than eight bytes"));
            }
        }
    }

    fn read_page(&self, _: PageId, _: &mut [u8]) {
        unreachable!("the cache moves sections")
    }

    fn write_page(&mut self, _: PageId, _: &[u8]) {
        unreachable!("the cache moves sections")
    }

    fn grow_snapshots(&mut self, snapshots: usize) -> Result<(), BackendError> {
        // The states of an unwritten snapshot do not match.
        self.snapshots.resize(snapshots.max(self.snapshots.len()), [0; 2]);
        Ok(())
    }

    fn read_snapshot(&self, snapshot: SnapshotId, state: RecurrentId, out: &mut [u8]) {
        out.fill(0);
        out[..8].copy_from_slice(&self.snapshots[snapshot.0 as usize][state.0 as usize].to_le_bytes());
    }

    fn write_snapshot(&mut self, snapshot: SnapshotId, state: RecurrentId, bytes: &[u8]) {
        let bytes = bytes[..8].try_into().expect("a state has more than eight bytes");
        self.snapshots[snapshot.0 as usize][state.0 as usize] = u64::from_le_bytes(bytes);
    }

    fn free_memory(&self) -> u64 {
        u64::MAX
    }
}
