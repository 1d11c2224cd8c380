//! The plan of a forward pass: ops over activation buffers, written once when a model loads.
//!
//! A plan is independent of devices and memory. Buffers are f32 matrices whose row count is set per batch; weights are
//! handles of a backend; per-sequence state (the KV cache) is declared, so that `kv` can store, share and restore all
//! of it.

use std::fmt;
use std::ops::Range;

use cairn_gguf::DType;

pub use crate::buffer::BufferId;
pub use crate::op::{Glu, HeadPart, Op, Projection};
use crate::page::{PageLayout, UnevenHead};
pub use crate::rope::{Growth, Rope, RopeStyle};
use crate::state::{Recurrent, RecurrentId, State, StateId};

/// Handle of a prepared plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanId(pub u32);

/// Row count of a buffer in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// One row for each row of the batch.
    Batch,
    /// One row for each row of the batch whose logits are computed, in batch order.
    Logits,
}

/// A buffer's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Row count.
    pub rows: Rows,
    /// Elements in a row.
    pub width: usize,
}

/// A forward pass.
#[derive(Clone, Default, PartialEq)]
pub struct Plan {
    /// Shapes, by [`BufferId`].
    pub buffers: Vec<Buffer>,
    /// Steps, in order.
    pub ops: Vec<Op>,
    /// Declared per-sequence states, by [`StateId`]: one for each layer that stores keys and values. Further layers may attend to
    /// the rows of an earlier one.
    pub states: Vec<State>,
    /// Declared recurrent states, by [`RecurrentId`]. Each belongs to one op.
    pub recurrent: Vec<Recurrent>,
    /// Rotations that ops refer to.
    pub ropes: Vec<Rope>,
    /// Holds `[logit rows, vocabulary]` after a run. For an embedding model, `[logit rows, width]` before pooling.
    pub logits: Option<BufferId>,
}

/// The text of a plan identifies cached rows, so a plan without recurrent states has the text of versions that had none.
impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { buffers, ops, states, recurrent, ropes, logits } = self;
        let mut text = f.debug_struct("Plan");
        text.field("buffers", buffers).field("ops", ops).field("states", states);
        if !recurrent.is_empty() {
            text.field("recurrent", recurrent);
        }
        text.field("ropes", ropes).field("logits", logits).finish()
    }
}

impl Plan {
    /// Adds a buffer.
    pub fn buffer(&mut self, rows: Rows, width: usize) -> BufferId {
        self.buffers.push(Buffer { rows, width });
        BufferId(self.buffers.len() as u32 - 1)
    }

    /// Declares one layer's state.
    pub fn state(&mut self, state: State) -> StateId {
        self.states.push(state);
        StateId(self.states.len() as u32 - 1)
    }

    /// Declares one recurrent state.
    pub fn recurrent(&mut self, elements: usize) -> RecurrentId {
        self.recurrent.push(Recurrent { elements });
        RecurrentId(self.recurrent.len() as u32 - 1)
    }

    /// Adds a rotation and returns its index.
    pub fn rope(&mut self, rope: Rope) -> usize {
        self.ropes.push(rope);
        self.ropes.len() - 1
    }

    /// Adds a step.
    pub fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Width of the batch's embedding rows. [`Op::Embed`] and [`Op::Input`] read their first elements, [`Op::AddInput`] others.
    pub fn input_width(&self) -> usize {
        let width = |id: &BufferId| self.buffers[id.0 as usize].width;
        let end = |op: &Op| match op {
            Op::Embed { out, .. } | Op::Input { out } => width(out),
            Op::AddInput { x, first } => first + width(x),
            _ => 0,
        };
        self.ops.iter().map(end).max().unwrap_or(0)
    }

    /// Number of adapters that the plan's ops are parts of.
    pub fn adapters(&self) -> usize {
        self.ops.iter().filter_map(Op::adapter).max().map_or(0, |last| last as usize + 1)
    }

    /// Number of layers that a [`Slice`](crate::Slice) can begin and end with; at least one. The first begins with the first op, each
    /// other one with an attention op or a convolution, and the last ends with the last op. Rows are not gathered before the last layer.
    pub fn layers(&self) -> usize {
        1 + self.layer_starts().count()
    }

    /// Ops of these layers.
    pub(crate) fn layer_ops(&self, layers: &Range<usize>) -> Range<usize> {
        let start = |layer: usize| match layer.checked_sub(1) {
            Some(before) => self.layer_starts().nth(before).unwrap_or(self.ops.len()),
            None => 0,
        };
        start(layers.start)..start(layers.end)
    }

    /// Number of stages that a [`Tile`](crate::Tile) can go through: one up to the first attention op, and one from each attention op
    /// to the next.
    pub fn stages(&self) -> usize {
        1 + self.attentions().count()
    }

    /// Ops of a stage.
    pub(crate) fn stage_ops(&self, stage: usize) -> Range<usize> {
        let start = |stage: usize| match stage.checked_sub(1) {
            Some(before) => self.attentions().nth(before).unwrap_or(self.ops.len()),
            None => 0,
        };
        start(stage)..start(stage + 1)
    }

    /// Positions of the ops that begin a layer, except the first.
    fn layer_starts(&self) -> impl Iterator<Item = usize> {
        // The first layer has such an op of its own.
        self.positions_of(|op| op.attends_to().is_some() || matches!(op, Op::Conv { .. })).skip(1)
    }

    /// Positions of attention ops over all rows.
    fn attentions(&self) -> impl Iterator<Item = usize> {
        self.positions_of(|op| op.attends_to().is_some())
    }

    /// Positions of these ops, as far as ops are over all rows.
    fn positions_of(&self, is_one: impl Fn(&Op) -> bool) -> impl Iterator<Item = usize> {
        let gathered = self.ops.iter().position(Op::selects_rows).unwrap_or(self.ops.len());
        (0..gathered).filter(move |op| is_one(&self.ops[*op]))
    }

    /// Returns whether a [`Tile`](crate::Tile) can have some of the rows: adjacent layers keep their keys and values in different
    /// states, so that a stage of these rows does not replace those that other rows still attend to.
    pub fn has_alternating_states(&self) -> bool {
        let states: Vec<StateId> = self.ops.iter().filter_map(Op::attends_to).collect();
        states.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// The layout of a page that holds all declared states in rows of this type, and of the snapshots of recurrent states.
    pub fn page_layout(&self, dtype: DType) -> PageLayout {
        PageLayout::new(&self.states, dtype).with_recurrent(&self.recurrent)
    }

    /// Returns the type of this plan's pages: `wanted`, or f16 with the reason if some heads are not whole blocks of
    /// `wanted`.
    pub fn kv_type(&self, wanted: DType) -> (DType, Option<UnevenHead>) {
        let dims = self.states.iter().flat_map(|state| [state.head_dim, state.value_dim()]);
        match dims.into_iter().find(|dim| !dim.is_multiple_of(wanted.block())) {
            None => (wanted, None),
            Some(head_dim) => (DType::F16, Some(UnevenHead { dtype: wanted, head_dim })),
        }
    }
}
