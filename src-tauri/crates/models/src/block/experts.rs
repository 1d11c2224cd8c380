//! Mixture of experts instead of the MLP (Shazeer et al., arXiv 1701.06538): a router selects some of many gated MLPs
//! for each row, and their weighted sum is added to the stream.
//!
//! `expert_count` and `expert_used_count` are the number of experts and the number that a row uses. All experts'
//! matrices are one tensor, `[cols, rows, experts]`, and so are their biases, `[rows, experts]`.

use cairn_tensor::{BufferId, ExpertGroups, Gating, Glu, HeadPart, Op, Projection, Router};

use super::shared_expert::SharedExpert;
use super::stream::{Part, Stream};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, MAX_WIDTH};

/// Larger than in any model.
const MAX_EXPERTS: u32 = 1 << 16;

/// The parameters and buffers of a model's mixtures of experts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Experts {
    part: Part,
    activation: Glu,
    /// Without the bias of the choice, which is a tensor of each layer.
    router: Router,
    /// Whether the model may have that bias.
    may_bias_choice: bool,
    /// Whether each expert has a factor, `ffn_down_exps.scale`.
    has_scales: bool,
    /// Inputs times their weights, `[rows, used * embedding]`; `None` if weights multiply outputs.
    weighed: Option<BufferId>,
    shared: Option<SharedExpert>,
    /// Number of experts.
    count: usize,
    /// Width inside an expert.
    inner: usize,
    logits: BufferId, // [rows, experts]
    routes: BufferId, // [rows, 2 * used]
    /// Gates and linear parts of a model with one tensor for both, `[rows, used * 2 * inner]`.
    both: Option<BufferId>,
    /// `[rows, used * inner]`; `None` for experts of squared ReLU without a gate.
    gate: Option<BufferId>,
    up: BufferId,   // [rows, used * inner]
    down: BufferId, // [rows, used * embedding or latent]
    /// Narrower input and output of the experts, `[rows, latent]`.
    latent: Option<[BufferId; 2]>,
}

impl Experts {
    /// Values of `expert_gating_func`.
    pub(crate) const SOFTMAX: u32 = 1;
    pub(crate) const SIGMOID: u32 = 2;

    /// Creates SwiGLU experts, weighted by a softmax over all experts and renormalised over the used ones.
    ///
    /// `inner` is the width inside an expert. The default is `expert_feed_forward_length`, else `feed_forward_length`
    /// divided by the number of used experts.
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams, inner: Option<usize>) -> Result<Self, LoadError> {
        Self::with_shape(b, hparams, inner, true, None)
    }

    /// Creates experts of squared ReLU without a gate. With a latent width, their input is a projection of this width, and so is the
    /// sum of their outputs (Nemotron 3).
    pub(crate) fn relu_squared(
        b: &mut Builder<'_>,
        hparams: &Hparams,
        latent: Option<usize>,
    ) -> Result<Self, LoadError> {
        Self::with_shape(b, hparams, None, false, latent)
    }

    fn with_shape(
        b: &mut Builder<'_>,
        hparams: &Hparams,
        inner: Option<usize>,
        is_gated: bool,
        latent: Option<usize>,
    ) -> Result<Self, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let count = keys.count("expert_count", None, MAX_EXPERTS)?;
        let used = keys.count("expert_used_count", None, count as u32)?;
        let inner = match inner {
            Some(inner) => inner,
            None => {
                let shared = (hparams.feed_forward_length / used) as u32;
                keys.count("expert_feed_forward_length", Some(shared), MAX_WIDTH)?
            }
        };
        Ok(Self {
            part: Part::MLP,
            activation: Glu::Silu,
            router: Router::new(used, Gating::Softmax { renormalise: true }),
            may_bias_choice: false,
            has_scales: false,
            weighed: None,
            shared: None,
            count,
            inner,
            logits: b.buffer(count),
            routes: b.buffer(2 * used),
            both: None,
            gate: is_gated.then(|| b.buffer(used * inner)),
            up: b.buffer(used * inner),
            down: b.buffer(used * latent.unwrap_or(hparams.embedding_length)),
            latent: latent.map(|width| [width; 2].map(|width| b.buffer(width))),
        })
    }

    /// Sets the names of the norms.
    pub(crate) fn part(self, part: Part) -> Self {
        Self { part, ..self }
    }

    /// Width inside an expert.
    pub(crate) fn inner(&self) -> usize {
        self.inner
    }

    pub(crate) fn activation(self, activation: Glu) -> Self {
        Self { activation, ..self }
    }

    pub(crate) fn gating(self, gating: Gating) -> Self {
        Self { router: Router { gating, ..self.router }, ..self }
    }

    /// Reads the factor of the weights, `expert_weights_scale`.
    pub(crate) fn scale_of_file(self, b: &Builder<'_>) -> Result<Self, LoadError> {
        let scale = Keys::new(b.metadata())?.positive("expert_weights_scale")?.unwrap_or(1.0);
        Ok(Self { router: Router { scale, ..self.router }, ..self })
    }

    /// Reads how the file chooses and weighs experts. Without `expert_gating_func`, scores are sigmoids.
    pub(crate) fn router_of_file(self, b: &Builder<'_>) -> Result<Self, LoadError> {
        self.router_of_file_or(b, Self::SIGMOID)
    }

    /// The same with another default of `expert_gating_func`.
    pub(crate) fn router_of_file_or(self, b: &Builder<'_>, default: u32) -> Result<Self, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let renormalise = keys.bool("expert_weights_norm")?.unwrap_or(false);
        let gating = match keys.u32("expert_gating_func")?.filter(|&number| number > 0).unwrap_or(default) {
            Self::SOFTMAX => Gating::Softmax { renormalise },
            Self::SIGMOID => Gating::Sigmoid { renormalise },
            3 => Gating::SoftmaxOfChosen,
            number => return Err(keys.invalid("expert_gating_func", format!("{number} is not in 1 to 3"))),
        };
        let router = Router { gating, groups: self.groups_of_file(&keys)?, ..self.router };
        Self { router, ..self }.choice_bias().scale_of_file(b)
    }

    /// Divides the weights of the chosen experts by their sum.
    pub(crate) fn renormalised(self) -> Self {
        match self.router.gating {
            Gating::Softmax { .. } => self.gating(Gating::Softmax { renormalise: true }),
            Gating::Sigmoid { .. } => self.gating(Gating::Sigmoid { renormalise: true }),
            _ => self,
        }
    }

    /// Reads the bias of the choice, `exp_probs_b`, if the model has it.
    pub(crate) fn choice_bias(self) -> Self {
        Self { may_bias_choice: true, ..self }
    }

    /// Reads a factor of each expert, `ffn_down_exps.scale`.
    pub(crate) fn scaled(self) -> Self {
        Self { has_scales: true, ..self }
    }

    /// Lets the weights multiply inputs of experts instead of their outputs.
    pub(crate) fn weighs_inputs(self, b: &mut Builder<'_>, hparams: &Hparams) -> Self {
        Self { weighed: Some(b.buffer(self.router.used * hparams.embedding_length)), ..self }
    }

    /// Reads gates and linear parts from one tensor, `ffn_gate_up_exps`, if the model has it.
    pub(crate) fn fused(self, b: &mut Builder<'_>, hparams: &Hparams) -> Self {
        let is_fused = (0..hparams.layers).any(|layer| b.has_tensor(&format!("blk.{layer}.ffn_gate_up_exps.weight")));
        let width = 2 * b.plan.buffers[self.up.0 as usize].width;
        Self { both: is_fused.then(|| b.buffer(width)), ..self }
    }

    fn groups_of_file(&self, keys: &Keys<'_>) -> Result<Option<ExpertGroups>, LoadError> {
        let count = keys.u32("expert_group_count")?.unwrap_or(0) as usize;
        if count < 2 {
            return Ok(None);
        }
        if !self.count.is_multiple_of(count) || self.count / count < 2 {
            let why = format!("{} experts are not {count} equal groups of two or more", self.count);
            return Err(keys.invalid("expert_group_count", why));
        }
        let used = keys.count("expert_group_used_count", None, count as u32)?;
        if self.router.used > used * (self.count / count) {
            let why = format!("{used} groups of {} experts have less than {}", self.count / count, self.router.used);
            return Err(keys.invalid("expert_group_used_count", why));
        }
        Ok(Some(ExpertGroups { count, used }))
    }

    /// Adds an expert that every row uses.
    pub(crate) fn shared(self, shared: Option<SharedExpert>) -> Self {
        Self { shared, ..self }
    }

    /// Adds `residual += sum of weight * down(activation(gate(x)) * up(x))` over the selected experts, or the same without a gate, where
    /// the stream provides `x`.
    pub(crate) fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        let x = stream.enter(b, self.part, layer);
        self.compute(b, hparams, x, [x, stream.branch], layer);
        stream.leave(b, self.part, layer);
    }

    /// Adds the same with `out = ` instead of `residual += `, for experts that the router selects by `routed`.
    pub(super) fn compute(
        &self,
        b: &mut Builder<'_>,
        hparams: &Hparams,
        routed: BufferId,
        [x, out]: [BufferId; 2],
        layer: usize,
    ) {
        let &Self { activation, router, count, inner, logits, routes, gate, up, down, latent, .. } = self;
        let embedding = hparams.embedding_length;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let projections = vec![b.projection(&name("ffn_gate_inp"), embedding, logits)];
        b.push(Op::MatMul { x: routed, projections });
        let bias = name("exp_probs_b.bias");
        let choice_bias = (self.may_bias_choice && b.has_bias(&bias)).then(|| b.vector(&bias, count));
        let expert_scales = self.has_scales.then(|| b.vector(&name("ffn_down_exps.scale"), count));
        b.push(Op::Route { logits, router: Router { choice_bias, expert_scales, ..router }, out: routes });
        let input = match latent {
            Some([input, _]) => {
                let projections = vec![b.projection(&name("ffn_latent_down"), embedding, input)];
                b.push(Op::MatMul { x, projections });
                input
            }
            None => x,
        };
        let width = b.plan.buffers[input.0 as usize].width;
        let input = match self.weighed {
            Some(weighed) => {
                b.push(Op::WeighInputs { x: input, routes, out: weighed });
                weighed
            }
            None => input,
        };
        let parts = match (self.both, gate) {
            (Some(both), _) => vec![("ffn_gate_up_exps", 2 * inner, both)],
            (None, Some(gate)) => vec![("ffn_gate_exps", inner, gate), ("ffn_up_exps", inner, up)],
            (None, None) => vec![("ffn_up_exps", inner, up)],
        };
        let parts = parts.into_iter();
        let projections = parts.map(|(part, rows, out)| self.projection(b, &name(part), [rows, width], out)).collect();
        b.push(Op::MatMulId { x: input, routes, experts: count, projections });
        if let (Some(both), Some(gate)) = (self.both, gate) {
            let part = |buffer, first| HeadPart { buffer, heads: router.used, first };
            for (first, out) in [(0, gate), (inner, up)] {
                b.push(Op::CopyHeads { from: part(both, first), to: part(out, 0), width: inner });
            }
        }
        let hidden = gate.unwrap_or(up);
        b.push(match gate {
            Some(gate) => Op::Glu { activation, gate, up, out: gate },
            None => Op::ReluSquared { x: up },
        });
        let projections = vec![self.projection(b, &name("ffn_down_exps"), [width, inner], down)];
        b.push(Op::MatMulId { x: hidden, routes, experts: count, projections });
        if let Some(shared) = &self.shared {
            shared.compute(b, hparams, x, layer);
        }
        let combined = latent.map_or(out, |[_, combined]| combined);
        b.push(Op::Combine { x: down, routes, out: combined });
        if latent.is_some() {
            let projections = vec![b.projection(&name("ffn_latent_up"), width, out)];
            b.push(Op::MatMul { x: combined, projections });
        }
        if let Some(shared) = &self.shared {
            b.push(Op::Add { x: out, y: shared.out });
        }
    }

    /// Adds the matrices `[rows, cols]` of all experts, and the biases if the model has them.
    fn projection(&self, b: &mut Builder<'_>, prefix: &str, [rows, cols]: [usize; 2], out: BufferId) -> Projection {
        let weight = b.experts(&format!("{prefix}.weight"), self.count, rows, cols);
        let bias = format!("{prefix}.bias");
        let bias = b.has_bias(&bias).then(|| b.matrix(&bias, self.count, rows));
        Projection { weight, bias, out }
    }
}
