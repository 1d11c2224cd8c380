//! KV pages: the unit in which a sequence's keys and values are kept, shared and moved.
//!
//! A page holds [`PAGE_TOKENS`] consecutive slots of one sequence, for all layers. Inside it, each layer has a K section and
//! a V section, `[kv_head][slot][head_dim]`, each at a multiple of 64 bytes:
//!
//! ```text
//! layer 0 K | layer 0 V | layer 1 K | layer 1 V | ...
//! ```

use std::ops::Range;

use crate::plan::State;

/// Slots in a page.
pub const PAGE_TOKENS: usize = 64;

/// A page of a backend's pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId(pub u32);

/// Where the sections of a page lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Bytes of one element.
    pub element_bytes: usize,
    /// Per state: byte offsets of K and V in the page.
    pub sections: Vec<[usize; 2]>,
    /// Per state: bytes that one head's keys, or values, take for one slot.
    pub row_bytes: Vec<usize>,
    /// Per state: key/value heads.
    pub kv_heads: Vec<usize>,
    /// Bytes of a whole page.
    pub page_bytes: usize,
}

impl PageLayout {
    /// Lays out one page for these states.
    pub fn new(states: &[State], element_bytes: usize) -> Self {
        let mut end = 0;
        let mut section = |state: &State| {
            let at = end;
            end += (state.kv_heads * PAGE_TOKENS * state.head_dim * element_bytes).next_multiple_of(64);
            at
        };
        let sections = states.iter().map(|state| [section(state), section(state)]).collect();
        let row_bytes = states.iter().map(|state| state.head_dim * element_bytes).collect();
        let kv_heads = states.iter().map(|state| state.kv_heads).collect();
        Self { element_bytes, sections, row_bytes, kv_heads, page_bytes: end }
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
