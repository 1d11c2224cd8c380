//! KV pages: the unit in which a sequence's keys and values are stored, shared and moved.
//!
//! A page holds [`PAGE_TOKENS`] consecutive slots of one sequence, for all layers. Inside it, each layer has a section
//! of keys and one of values, `[kv_head][slot][head_dim]`, each at a multiple of 64 bytes:
//!
//! ```text
//! layer 0 K | layer 0 V | layer 1 K | layer 1 V | ...
//! ```
//!
//! All rows have one type, and each row is encoded separately, as blocks of that type along `head_dim`: the bytes of a
//! slot do not depend on its neighbours, and rows of one type are the same bytes on every backend.

use std::ops::Range;

use cairn_gguf::DType;

use crate::snapshot::SnapshotLayout;
use crate::state::{Recurrent, State, StateId, StateKind};

/// Slots in a page.
pub const PAGE_TOKENS: usize = 64;

/// A page of a backend's pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId(pub u32);

/// Section of a state in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kv {
    /// Keys.
    Keys,
    /// Values.
    Values,
}

impl Kv {
    /// Both sections, in memory order.
    pub const ALL: [Kv; 2] = [Kv::Keys, Kv::Values];
}

/// Reason why pages cannot have the requested type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("heads of {head_dim} elements are not whole blocks of {dtype}, which have {} elements", dtype.block())]
pub struct UnevenHead {
    /// The type.
    pub dtype: DType,
    /// Elements of a head.
    pub head_dim: usize,
}

/// Byte offsets of the sections of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// The type of all keys and values. Its name and number are stable, so that stored rows can carry them.
    pub dtype: DType,
    /// Positions that a layer attends to, for each state.
    pub kinds: Vec<StateKind>,
    /// Byte offsets of keys and values in the page, for each state.
    pub sections: Vec<[usize; 2]>,
    /// Bytes of one head's key (or value) row for one slot, for each state.
    pub row_bytes: Vec<usize>,
    /// Number of key/value heads, for each state.
    pub kv_heads: Vec<usize>,
    /// Bytes of a whole page.
    pub page_bytes: usize,
    /// Layout of the snapshots that recurrent layers need beside the pages.
    pub snapshot: SnapshotLayout,
}

impl PageLayout {
    /// Returns the layout of a page for these states. If heads are not whole blocks of the type, no backend prepares
    /// such a plan: [`Plan::kv_type`](crate::Plan::kv_type) returns a type that fits.
    pub fn new(states: &[State], dtype: DType) -> Self {
        let mut end = 0;
        let mut section = |state: &State| {
            let at = end;
            end += (state.kv_heads * PAGE_TOKENS * dtype.row_bytes(state.head_dim)).next_multiple_of(64);
            at
        };
        let sections = states.iter().map(|state| [section(state), section(state)]).collect();
        let kinds = states.iter().map(|state| state.kind).collect();
        let row_bytes = states.iter().map(|state| dtype.row_bytes(state.head_dim)).collect();
        let kv_heads = states.iter().map(|state| state.kv_heads).collect();
        Self { dtype, kinds, sections, row_bytes, kv_heads, page_bytes: end, snapshot: SnapshotLayout::default() }
    }

    /// Adds snapshots of these states.
    #[must_use]
    pub fn with_recurrent(self, states: &[Recurrent]) -> Self {
        Self { snapshot: SnapshotLayout::new(states), ..self }
    }

    /// The bytes of a state's keys, or values, in the page: `[kv_head][slot]` rows of [`PageLayout::row_bytes`].
    pub fn section(&self, state: StateId, kv: Kv) -> Range<usize> {
        let state = state.0 as usize;
        let start = self.sections[state][kv as usize];
        start..start + self.kv_heads[state] * PAGE_TOKENS * self.row_bytes[state]
    }

    /// The byte ranges that hold these slots, in all layers and heads.
    pub fn slots(&self, slots: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let sections = self.sections.iter().zip(&self.row_bytes).zip(&self.kv_heads);
        sections.flat_map(move |((sections, row_bytes), kv_heads)| {
            let slots = slots.clone();
            sections.iter().flat_map(move |section| {
                let slots = slots.clone();
                (0..*kv_heads).map(move |head| {
                    let first = section + head * PAGE_TOKENS * row_bytes;
                    first + slots.start * row_bytes..first + slots.end * row_bytes
                })
            })
        })
    }

    /// Bytes that one token adds, on average over a page.
    pub fn token_bytes(&self) -> usize {
        self.page_bytes / PAGE_TOKENS
    }
}
