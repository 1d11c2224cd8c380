//! A mixture of experts in place of the MLP (Shazeer et al., arXiv 1701.06538): a router chooses some of many gated MLPs for
//! each row, and their weighted sum is added to the stream.
//!
//! `expert_count` and `expert_used_count` say how many there are and how many a row uses. All experts' matrices are one tensor,
//! `[cols, rows, experts]`, and so are their biases, `[rows, experts]`.

use cairn_tensor::{BufferId, Gating, Glu, Op, Projection};

use super::Stream;
use super::stream::Part;
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, MAX_WIDTH};

/// More than any model has.
const MAX_EXPERTS: u32 = 1 << 16;

/// The parameters and buffers of a model's mixtures of experts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Experts {
    part: Part,
    activation: Glu,
    gating: Gating,
    /// How many there are.
    count: usize,
    /// How many a row uses.
    used: usize,
    /// Width inside an expert.
    inner: usize,
    logits: BufferId, // [rows, experts]
    routes: BufferId, // [rows, 2 * used]
    gate: BufferId,   // [rows, used * inner]
    up: BufferId,     // [rows, used * inner]
    down: BufferId,   // [rows, used * embedding]
}

impl Experts {
    /// SwiGLU experts, weighed by their shares of a softmax over all, divided by the sum of those that are used.
    ///
    /// `inner` is the width inside an expert. Without it `expert_feed_forward_length` says it, or else the experts that a row
    /// uses are together as wide as `feed_forward_length`.
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams, inner: Option<usize>) -> Result<Self, LoadError> {
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
            gating: Gating::Softmax { renormalise: true },
            count,
            used,
            inner,
            logits: b.buffer(count),
            routes: b.buffer(2 * used),
            gate: b.buffer(used * inner),
            up: b.buffer(used * inner),
            down: b.buffer(used * hparams.embedding_length),
        })
    }

    /// Names the norms otherwise.
    pub(crate) fn part(self, part: Part) -> Self {
        Self { part, ..self }
    }

    pub(crate) fn activation(self, activation: Glu) -> Self {
        Self { activation, ..self }
    }

    pub(crate) fn gating(self, gating: Gating) -> Self {
        Self { gating, ..self }
    }

    /// `residual += sum over the chosen of weight * down(activation(gate(x)) * up(x))` with `x` as the stream gives it.
    pub(crate) fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        let &Self { activation, gating, count, used, inner, logits, routes, gate, up, down, .. } = self;
        let width = hparams.embedding_length;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let x = stream.enter(b, self.part, layer);
        let projections = vec![b.projection(&name("ffn_gate_inp"), width, logits)];
        b.push(Op::MatMul { x, projections });
        b.push(Op::Route { logits, used, gating, scale: 1.0, out: routes });
        let parts = [("ffn_gate_exps", gate), ("ffn_up_exps", up)];
        let projections = parts.map(|(part, out)| self.projection(b, &name(part), [inner, width], out)).to_vec();
        b.push(Op::MatMulId { x, routes, experts: count, projections });
        b.push(Op::Glu { activation, gate, up, out: gate });
        let projections = vec![self.projection(b, &name("ffn_down_exps"), [width, inner], down)];
        b.push(Op::MatMulId { x: gate, routes, experts: count, projections });
        b.push(Op::Combine { x: down, routes, out: stream.branch });
        stream.leave(b, self.part, layer);
    }

    /// The matrices `[rows, cols]` of all experts, and the biases where the model has them.
    fn projection(&self, b: &mut Builder<'_>, prefix: &str, [rows, cols]: [usize; 2], out: BufferId) -> Projection {
        let weight = b.experts(&format!("{prefix}.weight"), self.count, rows, cols);
        let bias = format!("{prefix}.bias");
        let bias = b.has_bias(&bias).then(|| b.matrix(&bias, self.count, rows));
        Projection { weight, bias, out }
    }
}
