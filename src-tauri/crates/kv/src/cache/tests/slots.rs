//! A mock backend that has only pages. Like real keys and values, a slot is a digest of its token and of the rows that its layers attend
//! to, so a right token after a wrong prefix is detected.

use std::ops::Range;

use cairn_gguf::DType;
use cairn_tensor::{
    Backend, BackendError, Batch, BufferId, Caps, Kv, Limits, PAGE_TOKENS, PageId, PageLayout, Plan, PlanId,
    RecurrentId, SnapshotId, State, StateId, StateKind, Weight, WeightId,
};

/// Size of a slot's key or value.
const ROW_BYTES: usize = 32;

/// Pages of one full layer, and of one window layer if a window is given.
pub(super) fn layout(window: Option<usize>) -> PageLayout {
    let kinds = [Some(StateKind::Full), window.map(|tokens| StateKind::Window(tokens as u32))];
    let state = |kind| State { kind, kv_heads: 1, head_dim: ROW_BYTES / 2 };
    PageLayout::new(&kinds.into_iter().flatten().map(state).collect::<Vec<_>>(), DType::F16)
}

/// The mock backend.
#[derive(Default)]
pub(super) struct Slots {
    /// Slots by page and layer.
    pub(super) pages: Vec<[[u64; PAGE_TOKENS]; 2]>,
    pub(super) memory_pages: Option<usize>,
    pub(super) window: Option<usize>,
}

impl Slots {
    /// Computes one token like a model: reads earlier slots through the page table, and writes the next one.
    pub(super) fn compute(&mut self, pages: &[PageId], slot: usize, token: u32) {
        let rows = rows(self.window, slot, token, |layer, slot| self.at(pages, layer, slot));
        for (layer, row) in rows.into_iter().enumerate() {
            self.pages[pages[slot / PAGE_TOKENS].0 as usize][layer][slot % PAGE_TOKENS] = row;
        }
    }

    /// Checks that these pages have the rows of these tokens to which the next token attends.
    pub(super) fn check(&self, pages: &[PageId], tokens: &[u32]) {
        let mut expected: [Vec<u64>; 2] = Default::default();
        for (slot, &token) in tokens.iter().enumerate() {
            let computed = rows(self.window, slot, token, |layer, slot| expected[layer][slot]);
            expected.iter_mut().zip(computed).for_each(|(layer, row)| layer.push(row));
        }
        let [full, windowed] = expected;
        for (slot, (full, windowed)) in full.into_iter().zip(windowed).enumerate() {
            assert_eq!(self.at(pages, 0, slot), full, "slot {slot} of {}, full layer", tokens.len());
            if self.window.is_some_and(|window| slot + window > tokens.len()) {
                assert_eq!(self.at(pages, 1, slot), windowed, "slot {slot} of {}, window layer", tokens.len());
            }
        }
    }

    fn at(&self, pages: &[PageId], layer: usize, slot: usize) -> u64 {
        self.pages[pages[slot / PAGE_TOKENS].0 as usize][layer][slot % PAGE_TOKENS]
    }
}

/// The rows of both layers at a slot, from the rows before it. The window layer reads the first, the middle and the last row of its
/// window.
fn rows(window: Option<usize>, slot: usize, token: u32, at: impl Fn(usize, usize) -> u64) -> [u64; 2] {
    let before = if slot == 0 { 0 } else { at(0, slot - 1) };
    let mut seen = 0;
    if let Some(window) = window {
        let first = (slot + 1).saturating_sub(window);
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

    fn grow_snapshots(&mut self, _: usize) -> Result<(), BackendError> {
        unreachable!("the layout has no recurrent states")
    }

    fn read_snapshot(&self, _: SnapshotId, _: RecurrentId, _: &mut [u8]) {
        unreachable!("the layout has no recurrent states")
    }

    fn write_snapshot(&mut self, _: SnapshotId, _: RecurrentId, _: &[u8]) {
        unreachable!("the layout has no recurrent states")
    }

    fn free_memory(&self) -> u64 {
        u64::MAX
    }
}
