//! KV pages: the unit in which a sequence's keys and values are stored, shared and moved.
//!
//! A page holds [`PAGE_TOKENS`] consecutive slots of one sequence, for all layers. Inside it, each layer has a section
//! of keys and one of values, `[kv_head][slot][head_dim]`, each at a multiple of 64 bytes:
//!
//! ```text
//! layer 0 K | layer 0 V | layer 1 K | layer 1 V | ...
//! ```
//!
//! If values are parts of the keys, the layer's section of values is empty.
//!
//! All rows have one type, and each row is encoded separately, as blocks of that type along `head_dim`: the bytes of a
//! slot do not depend on its neighbours, and rows of one type are the same bytes on every backend.

use std::ops::Range;

use cairn_gguf::DType;

use crate::snapshot::SnapshotLayout;
use crate::state::{Recurrent, State, StateId, StateKind, Values};

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
    /// Bytes of one head's key and value rows for one slot, for each state. A value that is a part of the key has none.
    pub row_bytes: Vec<[usize; 2]>,
    /// Byte offset of the value in its row, for each state: 0 unless values are parts of the keys.
    pub value_offsets: Vec<usize>,
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
        let rows = |state: &State| {
            let key = dtype.row_bytes(state.head_dim);
            match state.values {
                Values::Rows(elements) => ([key, dtype.row_bytes(elements)], 0),
                Values::InKeys(elements) => ([key, 0], key - dtype.row_bytes(elements)),
            }
        };
        let (row_bytes, value_offsets): (Vec<[usize; 2]>, _) = states.iter().map(rows).unzip();
        let mut section = |kv_heads: usize, row_bytes: usize| {
            let at = end;
            end += (kv_heads * PAGE_TOKENS * row_bytes).next_multiple_of(64);
            at
        };
        let sections = states.iter().zip(&row_bytes);
        let sections = sections.map(|(state, rows)| rows.map(|bytes| section(state.kv_heads, bytes))).collect();
        let kinds = states.iter().map(|state| state.kind).collect();
        let kv_heads = states.iter().map(|state| state.kv_heads).collect();
        let snapshot = SnapshotLayout::default();
        Self { dtype, kinds, sections, row_bytes, value_offsets, kv_heads, page_bytes: end, snapshot }
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
        start..start + self.kv_heads[state] * PAGE_TOKENS * self.row_bytes[state][kv as usize]
    }

    /// The byte ranges that hold these slots, in all layers and heads.
    pub fn slots(&self, slots: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let sections = self.sections.iter().zip(&self.row_bytes).zip(&self.kv_heads);
        sections.flat_map(move |((sections, row_bytes), kv_heads)| {
            let slots = slots.clone();
            sections.iter().zip(row_bytes).flat_map(move |(section, row_bytes)| {
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
