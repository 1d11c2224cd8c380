//! Checks of attention, and of the parts of sequences.

use super::{MAX_HEADS, PlanCheck, require};
use crate::backend::BackendError;
use crate::batch::Batch;
use crate::part_attention::{FIRST_SLOT, Part, PartAttention};
use crate::plan::{BufferId, Op, Plan};
use crate::state::{State, StateId, StateKind};
use crate::weight::Weight;

impl PlanCheck<'_> {
    /// Checks the query heads of an attention op, and that its buffers `[q, out]` fit its state.
    pub(super) fn heads(&self, state: StateId, heads: usize, [q, out]: [BufferId; 2]) -> Result<(), String> {
        let state = self.state(state)?;
        let State { kv_heads, head_dim, .. } = state;
        require(heads > 0 && kv_heads > 0 && heads.is_multiple_of(kv_heads), || {
            format!("{heads} query heads do not share {kv_heads} key/value heads evenly")
        })?;
        require(heads <= MAX_HEADS, || format!("{heads} query heads are more than {MAX_HEADS}"))?;
        self.batch_rows(q, heads * head_dim)?;
        self.batch_rows(out, heads * state.value_dim())?;
        Self::apart(q, out)
    }

    pub(super) fn part_attention(&self, op: &PartAttention) -> Result<(), String> {
        self.heads(op.state, op.heads, [op.q, op.out])?;
        require(op.scale.is_finite(), || format!("the factor on scores is {}", op.scale))?;
        let kind = self.state(op.state)?.kind;
        require(kind == StateKind::Full, || format!("a part of a sequence has all its slots, not {kind:?}"))?;
        let Some(bias) = op.bias else { return Ok(()) };
        let Weight { name, rows, cols, .. } = self.weight(bias.table)?;
        require(*cols == op.heads, || format!("{name} is {rows} x {cols}, and there are {} heads", op.heads))?;
        require(bias.is_valid(*rows), || format!("{name} has {rows} buckets of distances"))
    }
}

/// Checks that every row has an input where the plan attends to it, and is behind it.
pub(super) fn inputs(batch: &Batch, plan: &Plan) -> Result<(), BackendError> {
    let parts = plan.ops.iter().filter_map(|op| match op {
        Op::PartAttention(op) => Some(op.part),
        _ => None,
    });
    let (mut has_parts, mut needs_input) = (false, false);
    for part in parts {
        has_parts = true;
        needs_input |= part == Part::Input;
    }
    let is_wrong = |row: &crate::batch::Row| {
        let first = row.pos[FIRST_SLOT];
        first > row.slot || (needs_input && first == 0)
    };
    match batch.rows.iter().position(|row| has_parts && is_wrong(row)) {
        Some(index) => {
            let (slot, first) = (batch.rows[index].slot, batch.rows[index].pos[FIRST_SLOT]);
            Err(BackendError::Batch(format!("row {index} has slot {slot}, and the input of its sequence has {first}")))
        }
        None => Ok(()),
    }
}
