//! Declared per-sequence state: the rows that each attention layer stores in pages, and the states of recurrent layers.

use std::fmt;

/// One declared per-sequence state, by its position in [`Plan::states`](crate::Plan::states).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateId(pub u32);

/// Kind of a layer's per-sequence state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// Keys and values of all positions.
    Full,
    /// Keys and values of a position and all earlier ones. A row does not attend to later rows, even if they are visible to it.
    Causal,
    /// Keys and values of the last `w` positions.
    Window(u32),
    /// Keys and values of the positions of a row's own chunk, up to the row: chunks have `c` positions and begin at
    /// multiples of `c`.
    Chunk(u32),
    /// Keys and values up to this distance before and after a position.
    Around(u32),
    /// Keys and values of the row's region of a picture: the slots from the third component of [`Row::pos`](crate::Row::pos) up to the fourth one, of
    /// which neither falls from row to row.
    Region,
}

/// Where the values of an attention layer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// In rows of their own, with this number of elements.
    Rows(usize),
    /// In the keys: this number of last elements (multi-head latent attention: DeepSeek-V2, arXiv 2405.04434, section 2.1). They are
    /// stored once.
    InKeys(usize),
}

/// Per-sequence state of one attention layer: rows of keys and values in pages of [`crate::PAGE_TOKENS`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The positions that are stored.
    pub kind: StateKind,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Elements of one head's key.
    pub head_dim: usize,
    /// Its values.
    pub values: Values,
}

impl State {
    /// Creates the state of a layer with keys and values of the same number of elements.
    pub fn new(kind: StateKind, kv_heads: usize, head_dim: usize) -> Self {
        Self { kind, kv_heads, head_dim, values: Values::Rows(head_dim) }
    }

    /// Elements of one head's value.
    pub fn value_dim(&self) -> usize {
        match self.values {
            Values::Rows(elements) | Values::InKeys(elements) => elements,
        }
    }
}

/// The text of a plan identifies cached rows, so a state with keys and values of equal size has the text of versions without others.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, kv_heads, head_dim, values } = self;
        let mut text = f.debug_struct("State");
        text.field("kind", kind).field("kv_heads", kv_heads).field("head_dim", head_dim);
        if *values != Values::Rows(*head_dim) {
            text.field("values", values);
        }
        text.finish()
    }
}

/// One declared recurrent state, by its position in [`Plan::recurrent`](crate::Plan::recurrent).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecurrentId(pub u32);

/// Recurrent state of one layer: numbers that each row of a sequence replaces, and with which the next row continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrent {
    /// Number of f32 elements.
    pub elements: usize,
}
