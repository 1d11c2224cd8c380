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
    /// Keeps elements of the gate that exceed their row's mean by these many deviations.
    outliers: Option<f32>,
    gate: BufferId, // [rows, feed_forward]
    up: BufferId,   // [rows, feed_forward]
}

impl GatedMlp {
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams) -> Self {
        Self::with_width(b, hparams.feed_forward_length)
    }

    /// Creates MLPs with this width inside.
    pub(crate) fn with_width(b: &mut Builder<'_>, inner: usize) -> Self {
        let (gate, up) = (b.buffer(inner), b.buffer(inner));
        Self { part: Part::MLP, activation: Glu::Silu, fused: false, outliers: None, gate, up }
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

    /// Sets elements of the gate to zero up to these many deviations above their row's mean (Gemma 3n).
    pub(crate) fn outliers(self, outliers: Option<f32>) -> Self {
        Self { outliers, ..self }
    }

    /// Adds `residual += down(activation(gate(x)) * up(x))`, where the stream provides `x`.
    pub(crate) fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        let x = stream.enter(b, self.part, layer);
        self.compute(b, hparams, [x, stream.branch], layer);
        stream.leave(b, self.part, layer);
    }

    /// Adds `out = down(activation(gate(x)) * up(x))`.
    pub(super) fn compute(&self, b: &mut Builder<'_>, hparams: &Hparams, [x, out]: [BufferId; 2], layer: usize) {
        let &Self { activation, fused, outliers, gate, up, .. } = self;
        let (width, inner) = (hparams.embedding_length, b.plan.buffers[gate.0 as usize].width);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let projections = if fused {
            [(0, gate), (inner, up)]
                .map(|(first, out)| b.projection_rows(&name("ffn_up"), 2 * inner, first, width, out))
        } else {
            [("ffn_gate", gate), ("ffn_up", up)].map(|(part, out)| b.projection(&name(part), width, out))
        };
        b.push(Op::MatMul { x, projections: projections.to_vec() });
        if let Some(deviations) = outliers {
            b.push(Op::KeepOutliers { x: gate, deviations });
        }
        b.push(Op::Glu { activation, gate, up, out: gate });
        let projections = vec![b.projection(&name("ffn_down"), inner, out)];
        b.push(Op::MatMul { x: gate, projections });
    }
}

/// Parameters and buffers of MLPs without a gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainMlp {
    part: Part,
    activation: Activation,
    inner: BufferId, // [rows, feed_forward]
}

/// Activation of an MLP without a gate.
#[derive(Clone, Copy, Debug)]
enum Activation {
    /// GELU with tanh (Hendrycks & Gimpel, arXiv 1606.08415).
    Gelu,
    /// GELU with the error function.
    GeluErf,
    /// Squared ReLU (So et al., arXiv 2109.08668).
    ReluSquared,
}

impl PlainMlp {
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams) -> Self {
        Self::with_width(b, hparams.feed_forward_length)
    }

    /// Creates MLPs of this width inside.
    pub(crate) fn with_width(b: &mut Builder<'_>, width: usize) -> Self {
        Self { part: Part::MLP, activation: Activation::Gelu, inner: b.buffer(width) }
    }

    /// Sets the names of the norms.
    pub(crate) fn part(self, part: Part) -> Self {
        Self { part, ..self }
    }

    /// Computes GELU with the error function.
    pub(crate) fn erf(self) -> Self {
        Self { activation: Activation::GeluErf, ..self }
    }

    /// Squares the positive elements instead of GELU.
    pub(crate) fn relu_squared(self) -> Self {
        Self { activation: Activation::ReluSquared, ..self }
    }

    /// Adds `residual += down(activation(up(x)))`, where the stream provides `x`.
    pub(crate) fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        let &Self { part, activation, inner } = self;
        let width = b.plan.buffers[inner.0 as usize].width;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let x = stream.enter(b, part, layer);
        let projections = vec![b.projection(&name("ffn_up"), hparams.embedding_length, inner)];
        b.push(Op::MatMul { x, projections });
        b.push(match activation {
            Activation::Gelu => Op::Gelu { x: inner },
            Activation::GeluErf => Op::GeluErf { x: inner },
            Activation::ReluSquared => Op::ReluSquared { x: inner },
        });
        let projections = vec![b.projection(&name("ffn_down"), width, stream.branch)];
        b.push(Op::MatMul { x: inner, projections });
        stream.leave(b, part, layer);
    }
}
