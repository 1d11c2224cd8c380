//! Declared per-sequence state: the rows that each attention layer stores in pages.

/// One declared per-sequence state, by its position in [`Plan::states`](crate::Plan::states).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateId(pub u32);

/// Kind of a layer's per-sequence state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// Keys and values of all positions.
    Full,
    /// Keys and values of the last `w` positions.
    Window(u32),
}

/// Per-sequence state of one attention layer: rows of keys and values in pages of [`crate::PAGE_TOKENS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The positions that are stored.
    pub kind: StateKind,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Elements of one head, the same for keys and values.
    pub head_dim: usize,
}
