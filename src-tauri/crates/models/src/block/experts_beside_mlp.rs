//! Experts beside an MLP (Gemma 4 with experts): both read the stream and have norms of their own, and the sum of their outputs is
//! normalised again. The router reads the stream too, normalised by its root of the mean of squares and scaled by element.

use cairn_tensor::{BufferId, Op};

use super::stream::Part;
use super::{Experts, GatedMlp, Stream};
use crate::build::Builder;
use crate::hparams::Hparams;

/// The experts of a model, and the buffers beside them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpertsBesideMlp {
    experts: Experts,
    routed: BufferId, // [rows, embedding]
    dense: BufferId,  // [rows, embedding]
}

impl ExpertsBesideMlp {
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams, experts: Experts) -> Self {
        let [routed, dense] = [hparams.embedding_length; 2].map(|width| b.buffer(width));
        Self { experts, routed, dense }
    }

    /// Adds `residual += norm(norm(mlp(norm(residual))) + norm(experts(norm(residual))))`.
    pub(crate) fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, mlp: &GatedMlp, layer: usize) {
        let &Self { routed, dense, .. } = self;
        let (residual, branch, width) = (stream.residual, stream.branch, hparams.embedding_length);
        let x = stream.enter(b, Part::MLP, layer);
        mlp.compute(b, hparams, [x, dense], layer);
        stream.normalise(b, "post_ffw_norm_1", [dense, dense], layer);
        let weight = b.vector(&format!("blk.{layer}.ffn_gate_inp.scale"), width);
        b.push(Op::RmsNorm { x: residual, weight, eps: hparams.epsilon, group: width, out: routed });
        b.push(Op::Scale { x: routed, factor: 1.0 / (width as f32).sqrt() });
        stream.normalise(b, "pre_ffw_norm_2", [residual, branch], layer);
        self.experts.compute(b, hparams, routed, [branch, branch], layer);
        stream.normalise(b, "post_ffw_norm_2", [branch, branch], layer);
        b.push(Op::Add { x: branch, y: dense });
        stream.leave(b, Part::MLP, layer);
    }
}
