//! Mixture of experts instead of the MLP (Shazeer et al., arXiv 1701.06538): a router selects some of many gated MLPs
//! for each row, and their weighted sum is added to the stream.
//!
//! `expert_count` and `expert_used_count` are the number of experts and the number that a row uses. All experts'
//! matrices are one tensor, `[cols, rows, experts]`, and so are their biases, `[rows, experts]`.

use cairn_tensor::{BufferId, Gating, Glu, Op, Projection};

use super::Stream;
use super::stream::Part;
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
    gating: Gating,
    /// Number of experts.
    count: usize,
    /// Number of experts that a row uses.
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
    /// Creates SwiGLU experts, weighted by a softmax over all experts and renormalised over the used ones.
    ///
    /// `inner` is the width inside an expert. The default is `expert_feed_forward_length`, else `feed_forward_length`
    /// divided by the number of used experts.
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

    /// Sets the names of the norms.
    pub(crate) fn part(self, part: Part) -> Self {
        Self { part, ..self }
    }

    pub(crate) fn activation(self, activation: Glu) -> Self {
        Self { activation, ..self }
    }

    pub(crate) fn gating(self, gating: Gating) -> Self {
        Self { gating, ..self }
    }

    /// Adds `residual += sum of weight * down(activation(gate(x)) * up(x))` over the selected experts, where the stream
    /// provides `x`.
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

    /// Adds the matrices `[rows, cols]` of all experts, and the biases if the model has them.
    fn projection(&self, b: &mut Builder<'_>, prefix: &str, [rows, cols]: [usize; 2], out: BufferId) -> Projection {
        let weight = b.experts(&format!("{prefix}.weight"), self.count, rows, cols);
        let bias = format!("{prefix}.bias");
        let bias = b.has_bias(&bias).then(|| b.matrix(&bias, self.count, rows));
        Projection { weight, bias, out }
    }
}
