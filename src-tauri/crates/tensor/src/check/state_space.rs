//! Checks of the ops of state space models.

use super::{PlanCheck, require};
use crate::plan::BufferId;
use crate::state_space::StateSpace;
use crate::weight::WeightId;

/// More than in any model, so that products do not overflow.
const MAX_HEADS: usize = 1 << 16;
/// More than in any model.
const MAX_DIM: usize = 1 << 12;

impl PlanCheck<'_> {
    pub(super) fn state_space(&self, op: &StateSpace) -> Result<(), String> {
        let &StateSpace { state, xbc, step, decay, skip, groups, heads, head_dim, state_size, out } = op;
        let counts = [groups, heads].iter().all(|count| (1..=MAX_HEADS).contains(count));
        let dims = [head_dim, state_size].iter().all(|dim| (1..=MAX_DIM).contains(dim));
        require(counts && dims && heads % groups == 0, || {
            format!("{heads} heads of {head_dim} with states of {state_size} are not {groups} equal groups")
        })?;
        self.recurrent(state, op.elements())?;
        self.batch_rows(xbc, op.input_width())?;
        self.batch_rows(step, heads)?;
        self.batch_rows(decay, heads)?;
        self.vector(skip, heads)?;
        self.batch_rows(out, heads * head_dim)?;
        [xbc, step, decay].into_iter().try_for_each(|input| Self::apart(input, out))
    }

    pub(super) fn discretise(
        &self,
        x: BufferId,
        rate: WeightId,
        bias: WeightId,
        decay: BufferId,
    ) -> Result<(), String> {
        self.alike(x, decay)?;
        Self::apart(x, decay)?;
        let width = self.buffer(x)?.width;
        self.vector(rate, width)?;
        self.vector(bias, width)
    }
}
