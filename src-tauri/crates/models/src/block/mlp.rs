//! Feed-forward blocks: gated (SwiGLU: Shazeer, arXiv 2002.05202), and plain.

use cairn_tensor::{BufferId, Glu, Op};

use super::Stream;
use super::stream::Part;
use crate::build::Builder;
use crate::hparams::Hparams;

/// Parameters and buffers of gated MLPs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GatedMlp {
    part: Part,
    activation: Glu,
    /// Whether one tensor, `ffn_up`, contains the gate's rows followed by the linear part's.
    fused: bool,
    gate: BufferId, // [rows, feed_forward]
    up: BufferId,   // [rows, feed_forward]
}

impl GatedMlp {
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams) -> Self {
        let (gate, up) = (b.buffer(hparams.feed_forward_length), b.buffer(hparams.feed_forward_length));
        Self { part: Part::MLP, activation: Glu::Silu, fused: false, gate, up }
    }

    /// Sets the names of the norms.
    pub(crate) fn part(self, part: Part) -> Self {
        Self { part, ..self }
    }

    pub(crate) fn activation(self, activation: Glu) -> Self {
        Self { activation, ..self }
    }

    pub(crate) fn fused(self) -> Self {
        Self { fused: true, ..self }
    }

    /// Adds `residual += down(activation(gate(x)) * up(x))`, where the stream provides `x`.
    pub(crate) fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        let &Self { part, activation, fused, gate, up } = self;
        let (width, inner) = (hparams.embedding_length, hparams.feed_forward_length);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let x = stream.enter(b, part, layer);
        let projections = if fused {
            [(0, gate), (inner, up)]
                .map(|(first, out)| b.projection_rows(&name("ffn_up"), 2 * inner, first, width, out))
        } else {
            [("ffn_gate", gate), ("ffn_up", up)].map(|(part, out)| b.projection(&name(part), width, out))
        };
        b.push(Op::MatMul { x, projections: projections.to_vec() });
        b.push(Op::Glu { activation, gate, up, out: gate });
        let projections = vec![b.projection(&name("ffn_down"), inner, stream.branch)];
        b.push(Op::MatMul { x: gate, projections });
        stream.leave(b, part, layer);
    }
}

/// Buffers of MLPs without a gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainMlp {
    inner: BufferId, // [rows, feed_forward]
    /// Whether GELU is computed with the error function, not with tanh.
    has_erf: bool,
}

impl PlainMlp {
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams) -> Self {
        Self { inner: b.buffer(hparams.feed_forward_length), has_erf: false }
    }

    /// Computes GELU with the error function.
    pub(crate) fn erf(self) -> Self {
        Self { has_erf: true, ..self }
    }

    /// Adds `residual += down(gelu(up(x)))`, where the stream provides `x` (GELU: Hendrycks & Gimpel, arXiv
    /// 1606.08415).
    pub(crate) fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        let &Self { inner, has_erf } = self;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let x = stream.enter(b, Part::MLP, layer);
        let projections = vec![b.projection(&name("ffn_up"), hparams.embedding_length, inner)];
        b.push(Op::MatMul { x, projections });
        b.push(if has_erf { Op::GeluErf { x: inner } } else { Op::Gelu { x: inner } });
        let projections = vec![b.projection(&name("ffn_down"), hparams.feed_forward_length, stream.branch)];
        b.push(Op::MatMul { x: inner, projections });
        stream.leave(b, Part::MLP, layer);
    }
}
