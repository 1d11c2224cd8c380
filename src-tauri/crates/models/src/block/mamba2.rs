//! State space models (Mamba 2: Dao and Gu, arXiv 2405.21060): a short convolution over inputs, input matrices and output matrices,
//! states that decay by a step size of each token, a gate, and a norm of each group of heads.
//!
//! Sizes are `ssm.*` keys. One projection, `ssm_in`, has the rows of the gate, of the input of the convolution, and of the step sizes.

use cairn_tensor::{BufferId, Glu, Op, StateSpace};

use super::Stream;
use super::ssm_sizes::SsmSizes;
use super::stream::Part;
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// Parameters and buffers of a model's layers with state space models.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mamba2 {
    sizes: SsmSizes,
    gate: BufferId,  // [rows, inner]
    input: BufferId, // [rows, inputs, input matrices, output matrices]
    xbc: BufferId,   // The same after the convolution.
    step: BufferId,  // [rows, heads]
    decay: BufferId, // [rows, heads]
    out: BufferId,   // [rows, inner]
}

impl Mamba2 {
    /// Reads the sizes.
    pub(crate) fn new(b: &mut Builder<'_>) -> Result<Self, LoadError> {
        let sizes = SsmSizes::read(&Keys::new(b.metadata())?)?;
        let (inner, heads) = (sizes.inner(), sizes.heads);
        let width = inner + 2 * sizes.groups * sizes.state_size;
        let [gate, input, xbc, step, decay, out] =
            [inner, width, width, heads, heads, inner].map(|width| b.buffer(width));
        Ok(Self { sizes, gate, input, xbc, step, decay, out })
    }

    /// Adds `residual += state space model(x)`, where the stream provides `x`. The layer has two states: the rows before the next one
    /// for the convolution, and those of the heads.
    pub(crate) fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        let &Self { sizes, gate, input, xbc, step, decay, out } = self;
        let SsmSizes { kernel, groups, heads, state_size, head_dim } = sizes;
        let (inner, width) = (sizes.inner(), b.plan.buffers[xbc.0 as usize].width);
        let (embedding, eps) = (hparams.embedding_length, hparams.epsilon);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let x = stream.enter(b, Part::ATTENTION, layer);
        let parts = [(0, gate), (inner, input), (inner + width, step)];
        let rows = inner + width + heads;
        let project = |(first, out)| b.projection_rows(&name("ssm_in"), rows, first, embedding, out);
        let projections = parts.map(project).to_vec();
        b.push(Op::MatMul { x, projections });
        let weight = b.matrix(&name("ssm_conv1d.weight"), width, kernel);
        let bias = name("ssm_conv1d.bias");
        let bias = b.has_bias(&bias).then(|| b.vector(&bias, width));
        let state = b.plan.recurrent((kernel - 1) * width);
        b.push(Op::Conv { state, x: input, weight, bias, out: xbc });
        b.push(Op::Silu { x: xbc });
        let bias = b.vector(&name("ssm_dt.bias"), heads);
        let [rate, skip] = ["ssm_a", "ssm_d"].map(|part| b.reshaped(&name(part), &[1, heads], 1, heads));
        b.push(Op::Discretise { x: step, rate, bias, decay });
        let state = b.plan.recurrent(heads * state_size * head_dim);
        b.push(Op::StateSpace(StateSpace { state, xbc, step, decay, skip, groups, heads, head_dim, state_size, out }));
        b.push(Op::Glu { activation: Glu::Silu, gate, up: out, out: gate });
        let group = inner / groups;
        let dims = if groups == 1 { vec![inner] } else { vec![group, groups] };
        let weight = b.reshaped(&name("ssm_norm.weight"), &dims, 1, inner);
        b.push(Op::RmsNorm { x: gate, weight, eps, group, out: gate });
        let projections = vec![b.projection(&name("ssm_out"), inner, stream.branch)];
        b.push(Op::MatMul { x: gate, projections });
        stream.leave(b, Part::ATTENTION, layer);
    }
}
