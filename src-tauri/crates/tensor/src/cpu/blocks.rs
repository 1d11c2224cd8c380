//! Blocks of rows for attention, and the memory of their spans.

use std::ops::Range;

use crate::batch::Row;
use crate::part_attention::{FIRST_SLOT, Part, PartAttention};
use crate::plan::{Op, Plan};
use crate::state::StateKind;

/// Target number of queries per task, so that rows of a page are reused often enough.
const QUERIES: usize = 64;
/// Most query heads of a task, unless they have no divisor from the fewest ones on.
const MOST_HEADS: usize = 16;
const FEWEST_HEADS: usize = 8;
/// Tasks per thread below which spans are split over threads.
pub(super) const TASKS_PER_THREAD: usize = 2;
/// Spans of a full block that fit into memory before a merge. A block of one row has space for more.
const SPANS: usize = 8;

impl StateKind {
    /// Returns the slots that a row attends to. Those from [`Row::until`] on are hidden from it.
    pub(crate) fn visible(self, row: &Row) -> Range<u32> {
        let &Row { slot, until, pos, .. } = row;
        match self {
            Self::Full => 0..until,
            Self::Causal => 0..slot + 1,
            Self::Window(tokens) => (slot + 1).saturating_sub(tokens)..until,
            Self::Chunk(tokens) => slot - slot % tokens..until,
            Self::Around(side) => slot.saturating_sub(side)..slot.saturating_add(side).saturating_add(1).min(until),
            Self::Region => pos[2]..pos[3].min(until),
        }
    }
}

/// The slots that rows attend to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VisibleSlots {
    /// Those of a kind of states.
    Kind(StateKind),
    /// Those of a part of the sequence.
    Part(Part),
}

impl VisibleSlots {
    /// Returns the slots that a row attends to.
    pub(super) fn visible(self, row: &Row) -> Range<u32> {
        match self {
            Self::Kind(kind) => kind.visible(row),
            Self::Part(Part::Input) => 0..row.pos[FIRST_SLOT],
            Self::Part(Part::Own) => row.pos[FIRST_SLOT]..row.until,
        }
    }
}

/// Consecutive rows of one sequence.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The sequence.
    pub(super) seq: u32,
    /// Rows of the batch.
    pub(super) rows: Range<usize>,
    /// The first row, with the lowest slot.
    first: Row,
    /// The last row, with the greatest `until` of all.
    last: Row,
}

impl Block {
    /// A block of one row.
    pub(super) fn new(index: usize, row: &Row) -> Self {
        Self { seq: row.seq, rows: index..index + 1, first: *row, last: *row }
    }

    /// Adds the next row.
    pub(super) fn extend(&mut self, row: &Row) {
        self.rows.end += 1;
        self.last = Row { until: self.last.until.max(row.until), ..*row };
    }

    /// The slots that its rows attend to, from the first one of any row to the last.
    pub(super) fn visible(&self, seen: VisibleSlots) -> Range<u32> {
        seen.visible(&self.first).start..seen.visible(&self.last).end
    }
}

/// Sizes of an attention op.
pub(super) struct HeadShape {
    /// Elements of a key.
    pub(super) head_dim: usize,
    /// Elements of a value.
    pub(super) value_dim: usize,
    /// Query heads of a task.
    pub(super) group: usize,
}

/// Returns the query heads of a task, of `heads` that share a key/value head. Many heads are several tasks, so that a decode step has
/// work for all threads: each unpacks the pages, which is a small part of its work.
pub(super) fn task_heads(heads: usize) -> usize {
    let few = (FEWEST_HEADS..=MOST_HEADS).rev().find(|few| heads.is_multiple_of(*few));
    few.filter(|_| heads > MOST_HEADS).unwrap_or(heads)
}

/// Attention ops of a plan.
pub(super) fn heads(plan: &Plan) -> impl Iterator<Item = HeadShape> {
    plan.ops.iter().filter_map(|op| match op {
        Op::Attention { state, heads, .. } | Op::PartAttention(PartAttention { state, heads, .. }) => {
            let state = plan.states[state.0 as usize];
            let (head_dim, value_dim) = (state.head_dim, state.value_dim());
            Some(HeadShape { head_dim, value_dim, group: task_heads(heads / state.kv_heads) })
        }
        _ => None,
    })
}

/// Batch rows that make a block.
pub(super) fn block_rows(plan: &Plan) -> usize {
    let smallest = heads(plan).map(|shape| shape.group).min().unwrap_or(1);
    (QUERIES / smallest).max(1)
}

/// Elements of the softmax state of a block, maxima, sums and values, or of its queries if they are more.
pub(super) fn block_elements(plan: &Plan, block_rows: usize) -> usize {
    let elements = |shape: HeadShape| block_rows * shape.group * (shape.head_dim.max(shape.value_dim) + 2);
    heads(plan).map(elements).max().unwrap_or(0)
}

/// Queries of a block with a bias; 0 for a plan without one.
pub(super) fn biased_queries(plan: &Plan, block_rows: usize) -> usize {
    let has_bias = |op: &Op| matches!(op, Op::PartAttention(PartAttention { bias: Some(_), .. }));
    let queries = heads(plan).map(|shape| block_rows * shape.group).max().unwrap_or(0);
    if plan.ops.iter().any(has_bias) { queries } else { 0 }
}

/// Elements of memory for spans that wait to be merged.
pub(super) fn partial_elements(plan: &Plan, block_rows: usize, threads: usize) -> usize {
    // A single thread never splits a task.
    if threads == 1 { 0 } else { TASKS_PER_THREAD * threads * (SPANS + 1) * block_elements(plan, block_rows) }
}
