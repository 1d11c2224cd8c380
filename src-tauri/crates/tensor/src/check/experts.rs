//! Checks of mixtures of experts: routes are computed before the ops that use them, and fit these ops.

use super::{PlanCheck, require};
use crate::delta::DeltaRule;
use crate::part_attention::PartAttention;
use crate::plan::{Buffer, BufferId, Op, Projection};
use crate::router::{ExpertGroups, Router};
use crate::state_space::StateSpace;
use crate::weight::Weight;

/// More experts than any model has. f32 holds all integers up to here.
const MAX_EXPERTS: usize = 1 << 24;

/// A buffer of routes.
#[derive(Clone, Copy)]
pub(super) struct Routes {
    buffer: BufferId,
    /// Number of experts.
    pub(super) experts: usize,
    /// Number of chosen experts.
    used: usize,
}

/// Whether an op writes a buffer.
fn writes(op: &Op, id: BufferId) -> bool {
    match op {
        Op::Embed { out, .. }
        | Op::EmbedTokens { out, .. }
        | Op::RmsNorm { out, .. }
        | Op::LayerNorm { out, .. }
        | Op::Route { out, .. }
        | Op::Combine { out, .. }
        | Op::AddMixed { out, .. }
        | Op::Attention { out, .. }
        | Op::PartAttention(PartAttention { out, .. })
        | Op::Conv { out, .. }
        | Op::DeltaRule(DeltaRule { out, .. })
        | Op::StateSpace(StateSpace { out, .. })
        | Op::Glu { out, .. }
        | Op::Input { out }
        | Op::Mean { out, .. }
        | Op::Join { out, .. }
        | Op::Gather { out, .. } => *out == id,
        Op::MatMul { projections, .. } | Op::MatMulAdapter { projections, .. } | Op::MatMulId { projections, .. } => {
            projections.iter().any(|projection| projection.out == id)
        }
        Op::MatMulHeads { to, .. } | Op::CopyHeads { to, .. } | Op::AddHeads { to, .. } => to.buffer == id,
        Op::WeighInputs { routes, out, .. } => *routes == id || *out == id,
        // The summand is scaled in place.
        Op::AddAdapter { x, y, .. } => *x == id || *y == id,
        Op::Discretise { x, decay, .. } => *x == id || *decay == id,
        Op::AddEmbedding { x, .. }
        | Op::AddGridEmbedding { x, .. }
        | Op::AddInput { x, .. }
        | Op::Rope { x, .. }
        | Op::MatchLength { x, .. }
        | Op::KeepOutliers { x, .. }
        | Op::AddWeight { x, .. }
        | Op::MulWeight { x, .. }
        | Op::Gelu { x }
        | Op::GeluErf { x }
        | Op::Sigmoid { x }
        | Op::Silu { x }
        | Op::ReluSquared { x }
        | Op::Relu { x }
        | Op::Decay { x, .. }
        | Op::Scale { x, .. }
        | Op::Clamp { x, .. }
        | Op::Softcap { x, .. }
        | Op::Add { x, .. }
        | Op::Mul { x, .. } => *x == id,
        Op::StoreKv { .. } | Op::StoreLatent { .. } => false,
    }
}

impl PlanCheck<'_> {
    /// Checks [`Op::Route`].
    pub(super) fn route(&self, logits: BufferId, router: &Router, out: BufferId) -> Result<(), String> {
        let &Router { used, choice_bias, groups, scale, expert_scales, .. } = router;
        let Buffer { rows, width: experts } = self.buffer(logits)?;
        require((1..=experts).contains(&used) && experts <= MAX_EXPERTS, || {
            format!("{used} of {experts} experts are used")
        })?;
        let (have, want) = (self.buffer(out)?, Buffer { rows, width: 2 * used });
        require(have == want, || format!("buffer {} is {have:?}, not {want:?}", out.0))?;
        for vector in [choice_bias, expert_scales].into_iter().flatten() {
            self.vector(vector, experts)?;
        }
        if let Some(ExpertGroups { count, used: used_groups }) = groups {
            let whole = count > 0 && experts.is_multiple_of(count) && experts / count >= ExpertGroups::BEST;
            require(whole && (1..=count).contains(&used_groups) && used <= experts / count * used_groups, || {
                format!("{used} of {experts} experts are chosen from {used_groups} of {count} groups")
            })?;
        }
        require(scale.is_finite(), || format!("the weights' factor is {scale}"))?;
        Self::apart(logits, out)
    }

    /// Returns the routes in a buffer for the rows of `x`.
    pub(super) fn routes(&self, step: usize, buffer: BufferId, x: BufferId) -> Result<Routes, String> {
        let (have, rows) = (self.buffer(buffer)?, self.buffer(x)?.rows);
        require(have.rows == rows, || format!("the routes in buffer {} are for {:?} rows", buffer.0, have.rows))?;
        let keeps = |op: &&Op| matches!(op, Op::WeighInputs { routes, out, .. } if *routes == buffer && *out != buffer);
        match self.plan.ops[..step].iter().rev().filter(|op| !keeps(op)).find(|op| writes(op, buffer)) {
            Some(Op::Route { logits, router, .. }) => {
                Ok(Routes { buffer, experts: self.buffer(*logits)?.width, used: router.used })
            }
            _ => Err(format!("buffer {} holds no routes", buffer.0)),
        }
    }

    /// Checks [`Op::WeighInputs`].
    pub(super) fn weigh_inputs(&self, routes: Routes, x: BufferId, out: BufferId) -> Result<(), String> {
        let (from, have) = (self.buffer(x)?, self.buffer(out)?);
        require(have.width == routes.used * from.width && from.rows == have.rows, || {
            format!("buffer {} is {have:?}, {} parts of {from:?}", out.0, routes.used)
        })?;
        Self::apart(x, out)?;
        Self::apart(routes.buffer, x)?;
        Self::apart(routes.buffer, out)
    }

    /// Checks [`Op::MatMulId`].
    pub(super) fn experts(&self, routes: Routes, x: BufferId, projections: &[Projection]) -> Result<(), String> {
        let Routes { buffer, experts, used } = routes;
        let input = self.buffer(x)?;
        require(!projections.is_empty(), || "the product has no weights".into())?;
        let width = self.weight(projections[0].weight)?.cols;
        require(input.width == width || input.width == used * width, || {
            format!("the input is {} wide, for {used} experts of {width}", input.width)
        })?;
        for (index, projection) in projections.iter().enumerate() {
            let Weight { name, rows, cols, .. } = self.weight(projection.weight)?;
            require(*cols == width && rows % experts == 0, || {
                format!("{name} is {rows} x {cols}, not {experts} times a width by {width}")
            })?;
            let (have, want) =
                (self.buffer(projection.out)?, Buffer { rows: input.rows, width: rows / experts * used });
            require(have == want, || format!("buffer {} is {have:?}, not {want:?}", projection.out.0))?;
            if let Some(bias) = projection.bias {
                let bias = self.weight(bias)?;
                require(bias.rows == experts && bias.cols == rows / experts, || {
                    format!("{} is {} x {}, not {experts} x {}", bias.name, bias.rows, bias.cols, rows / experts)
                })?;
            }
            Self::apart(x, projection.out)?;
            Self::apart(buffer, projection.out)?;
            for other in &projections[..index] {
                Self::apart(other.out, projection.out)?;
            }
        }
        Ok(())
    }

    /// Checks [`Op::Combine`].
    pub(super) fn combine(&self, routes: Routes, x: BufferId, out: BufferId) -> Result<(), String> {
        let (from, have) = (self.buffer(x)?, self.buffer(out)?);
        require(from.width == routes.used * have.width && from.rows == have.rows, || {
            format!("buffer {} is {have:?}, the sum of {} parts of {from:?}", out.0, routes.used)
        })?;
        Self::apart(x, out)?;
        Self::apart(routes.buffer, out)
    }
}
