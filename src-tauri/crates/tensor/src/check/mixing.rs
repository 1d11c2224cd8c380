//! Checks of the ops between several residual streams, and of sparse activations.

use super::{PlanCheck, require};
use crate::plan::BufferId;

impl PlanCheck<'_> {
    /// Checks [`Op::AddMixed`](crate::Op::AddMixed).
    pub(super) fn add_mixed(&self, [x, factors, out]: [BufferId; 3], width: usize) -> Result<(), String> {
        let [from, by, to] = [self.buffer(x)?, self.buffer(factors)?, self.buffer(out)?];
        let is_whole = width > 0 && from.width.is_multiple_of(width) && to.width.is_multiple_of(width);
        let fits = is_whole && (from.width / width).checked_mul(to.width / width) == Some(by.width);
        require(fits && from.rows == by.rows && from.rows == to.rows, || {
            format!("{by:?} are no factors from parts of {width} elements of {from:?} to {to:?}")
        })?;
        Self::apart(x, out)?;
        Self::apart(factors, out)
    }

    /// Checks [`Op::MatchLength`](crate::Op::MatchLength).
    pub(super) fn match_length(&self, x: BufferId, like: BufferId) -> Result<(), String> {
        let (have, other) = (self.buffer(x)?, self.buffer(like)?);
        let fits = other.width > 0 && have.width.is_multiple_of(other.width);
        require(fits && have.rows == other.rows, || format!("{have:?} has no parts with the lengths of {other:?}"))?;
        Self::apart(x, like)
    }

    /// Checks [`Op::KeepOutliers`](crate::Op::KeepOutliers).
    pub(super) fn keep_outliers(&self, x: BufferId, deviations: f32) -> Result<(), String> {
        let width = self.buffer(x)?.width;
        require(width > 1, || format!("a row of {width} elements has no deviation"))?;
        require(deviations.is_finite(), || format!("the limit is {deviations} deviations"))
    }
}
