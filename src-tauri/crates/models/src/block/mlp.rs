//! The gated feed-forward block (SwiGLU: Shazeer, arXiv 2002.05202).

use cairn_tensor::{BufferId, Glu, Op};

use super::Stream;
use crate::build::Builder;
use crate::hparams::Hparams;

/// The buffers of a model's gated MLPs, each `[rows, feed_forward]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gated {
    gate: BufferId,
    up: BufferId,
}

impl Gated {
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams) -> Self {
        Self { gate: b.buffer(hparams.feed_forward_length), up: b.buffer(hparams.feed_forward_length) }
    }
}

/// `residual += down(silu(gate(x)) * up(x))` with `x = norm(residual)`.
pub(crate) fn gated_mlp(b: &mut Builder<'_>, hparams: &Hparams, stream: Stream, mlp: &Gated, layer: usize) {
    let &Gated { gate, up } = mlp;
    let name = |part: &str| format!("blk.{layer}.{part}");

    stream.norm(b, &name("ffn_norm.weight"), hparams);
    let parts = [("ffn_gate", gate), ("ffn_up", up)];
    let projections = parts.map(|(part, out)| b.projection(&name(part), hparams.embedding_length, out)).to_vec();
    b.push(Op::MatMul { x: stream.branch, projections });
    b.push(Op::Glu { activation: Glu::Silu, gate, up, out: gate });
    let projections = vec![b.projection(&name("ffn_down"), hparams.feed_forward_length, stream.branch)];
    b.push(Op::MatMul { x: gate, projections });
    stream.add(b);
}
