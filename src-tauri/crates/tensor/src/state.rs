//! Declared per-sequence state: the rows that each attention layer stores in pages, and the states of recurrent layers.

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
    /// Keys and values up to this distance before and after a position.
    Around(u32),
}

impl StateKind {
    /// Returns the first slot that a row at `slot` attends to.
    pub(crate) fn first(self, slot: u32) -> u32 {
        match self {
            Self::Full => 0,
            Self::Window(tokens) => (slot + 1).saturating_sub(tokens),
            Self::Around(side) => slot.saturating_sub(side),
        }
    }

    /// Returns the end of the slots that a row at `slot` attends to. Slots from `visible` on are hidden from it.
    pub(crate) fn until(self, slot: u32, visible: u32) -> u32 {
        match self {
            Self::Full | Self::Window(_) => visible,
            Self::Around(side) => slot.saturating_add(side).saturating_add(1).min(visible),
        }
    }
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

/// One declared recurrent state, by its position in [`Plan::recurrent`](crate::Plan::recurrent).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecurrentId(pub u32);

/// Recurrent state of one layer: numbers that each row of a sequence replaces, and with which the next row continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrent {
    /// Number of f32 elements.
    pub elements: usize,
}
