//! Input of one step: ragged rows of several sequences, each at its own position.

use std::ops::Range;

use crate::page::PageId;
use crate::snapshot::SnapshotTable;

/// Input of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A token id.
    Token(u32),
    /// A row of [`Batch::embeddings`], for example an image patch.
    Embedding(u32),
}

impl Input {
    /// Returns the token, or that of padding for another input.
    pub(crate) fn token_or_padding(self) -> u32 {
        match self {
            Self::Token(token) => token,
            Self::Embedding(_) => 0,
        }
    }
}

/// One row of a batch. Rows of one sequence are adjacent, in ascending slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Index into [`Batch::tables`].
    pub seq: u32,
    /// The row's input.
    pub input: Input,
    /// Slot of its key and value: the row's index in its sequence.
    pub slot: u32,
    /// Position for RoPE and for tables of positions. The first three components of a text's position are equal. An encoder of text uses
    /// the second as its segment. Rows of a picture have a place in it, from the second component on in a text model, and from the first
    /// on in a tower.
    pub pos: [u32; 4],
    /// Slots `0..until` are visible to this row: `slot + 1` when causal, the end of its span otherwise.
    pub until: u32,
    /// Whether this row's logits are computed.
    pub want_logits: bool,
}

impl Row {
    /// Row of a token of an encoder, which attends to all `tokens` slots of its sequence.
    pub fn encoder(seq: u32, token: u32, slot: u32, segment: u32, tokens: u32) -> Self {
        let pos = [slot, segment, 0, 0];
        Self { seq, input: Input::Token(token), slot, pos, until: tokens, want_logits: false }
    }

    /// The position of a text token.
    pub fn text_position(position: u32) -> [u32; 4] {
        [position, position, position, 0]
    }

    /// Row of a text token that attends to itself and all earlier slots of its sequence.
    pub fn text(seq: u32, token: u32, slot: u32, want_logits: bool) -> Self {
        Self { seq, input: Input::Token(token), slot, pos: Self::text_position(slot), until: slot + 1, want_logits }
    }
}

/// Use of an adapter by a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdapterUse {
    /// Index of the adapter in the plan.
    pub adapter: u32,
    /// Factor on what the adapter adds; any finite number.
    pub scale: f32,
}

/// The first rows of a batch, which a run takes through some of the layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Number of rows, the same rows in all runs of the slice. Their sequences have lower numbers than those of the rows behind them.
    pub rows: usize,
    /// The layers: see [`Plan::layers`](crate::Plan::layers). They begin with the first layer, or where the run before ended.
    pub layers: Range<usize>,
}

/// Some rows of a batch, which a run takes through one stage of the plan, while the other rows wait. So an encoder of many rows
/// computes in short runs. All rows go through a stage, in order, before the first of them goes through the next one: in between, all
/// keys and values are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The rows. They begin with the first row, or where the run before ended.
    pub rows: Range<usize>,
    /// The stage: see [`Plan::stages`](crate::Plan::stages).
    pub stage: usize,
}

/// One step for one or more sequences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Rows, grouped by sequence.
    pub rows: Vec<Row>,
    /// Pages of each sequence, in order. Page `i` has the slots `64 i .. 64 i + 64`. Covers every slot that a row
    /// writes or attends to.
    pub tables: Vec<Vec<PageId>>,
    /// Recurrent states of each sequence, if the plan has any. The rows of a sequence are then consecutive slots.
    pub snapshots: Vec<SnapshotTable>,
    /// The adapters of each sequence, each at most once. Sequences beyond the end use none.
    pub adapters: Vec<Vec<AdapterUse>>,
    /// `[n, width]` rows that [`Input::Embedding`] refers to.
    pub embeddings: Vec<f32>,
    /// The first rows, if this run takes them through some of the layers only.
    pub slice: Option<Slice>,
    /// The rows and the stage of this run, if it computes a part of the batch only. The batch is the same in all runs, and has no slice.
    pub tile: Option<Tile>,
}

impl Batch {
    /// Clears the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.tables.clear();
        self.snapshots.clear();
        self.adapters.clear();
        self.embeddings.clear();
        self.slice = None;
        self.tile = None;
    }

    /// Returns the scale with which a row's sequence uses an adapter, if it does.
    pub(crate) fn adapter_scale(&self, row: usize, adapter: u32) -> Option<f32> {
        let uses = self.adapters.get(self.rows[row].seq as usize)?;
        uses.iter().find(|use_| use_.adapter == adapter).map(|use_| use_.scale)
    }

    /// Returns whether a sequence uses an adapter.
    pub(crate) fn uses_adapter(&self, adapter: u32) -> bool {
        self.adapters.iter().flatten().any(|use_| use_.adapter == adapter)
    }

    /// Returns the rows whose logits are computed.
    pub fn logit_rows(&self) -> usize {
        self.rows.iter().filter(|row| row.want_logits).count()
    }
}
