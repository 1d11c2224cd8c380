//! Checks of the ops of linear attention.

use super::{MAX_HEADS, PlanCheck, require};
use crate::delta::DeltaRule;
use crate::plan::BufferId;
use crate::weight::WeightId;

/// More than in any model.
const MAX_DIM: usize = 1 << 12;

impl PlanCheck<'_> {
    pub(super) fn delta_rule(&self, rule: &DeltaRule) -> Result<(), String> {
        let &DeltaRule { state, qkv, decay, beta, key_heads, heads, key_dim, value_dim, eps, out, .. } = rule;
        let counts = [key_heads, heads].iter().all(|count| (1..=MAX_HEADS).contains(count));
        let dims = [key_dim, value_dim].iter().all(|dim| (1..=MAX_DIM).contains(dim));
        require(counts && dims && heads % key_heads == 0, || {
            format!("{heads} heads of {value_dim} do not share {key_heads} key heads of {key_dim} evenly")
        })?;
        require(eps.is_finite() && eps >= 0.0, || format!("eps is {eps}"))?;
        self.recurrent(state, rule.elements())?;
        self.batch_rows(qkv, rule.input_width())?;
        self.batch_rows(decay, heads)?;
        self.batch_rows(beta, heads)?;
        self.batch_rows(out, heads * value_dim)?;
        [qkv, decay, beta].into_iter().try_for_each(|input| Self::apart(input, out))
    }

    pub(super) fn decay(&self, x: BufferId, rate: WeightId, bias: WeightId) -> Result<(), String> {
        let width = self.buffer(x)?.width;
        self.vector(rate, width)?;
        self.vector(bias, width)
    }
}
