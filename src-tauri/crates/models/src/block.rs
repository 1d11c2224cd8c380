//! What families are made of: parts of a forward pass that differ between them only in parameters.

pub(crate) mod attention;
pub(crate) mod ends;
pub(crate) mod mlp;
pub(crate) mod rope;

use cairn_tensor::{BufferId, Op};

use crate::build::Builder;
use crate::hparams::Hparams;

pub(crate) use attention::{Attention, attention};
pub(crate) use ends::{embed, logits};
pub(crate) use mlp::gated_mlp;

/// The activations of a transformer block, used again in every layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// The residual stream, `[rows, embedding]`.
    pub(crate) residual: BufferId,
    /// What a part reads from the stream, normalised, and then what it adds to it; `[rows, embedding]`.
    pub(crate) branch: BufferId,
}

impl Stream {
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams) -> Self {
        Self { residual: b.buffer(hparams.embedding_length), branch: b.buffer(hparams.embedding_length) }
    }

    /// Normalises the residual stream into the branch.
    pub(crate) fn norm(self, b: &mut Builder<'_>, name: &str, hparams: &Hparams) {
        let (group, eps) = (hparams.embedding_length, hparams.rms_epsilon);
        let weight = b.vector(name, group);
        b.push(Op::RmsNorm { x: self.residual, weight, eps, group, out: self.branch });
    }

    /// Adds the branch to the residual stream.
    pub(crate) fn add(self, b: &mut Builder<'_>) {
        b.push(Op::Add { x: self.residual, y: self.branch });
    }
}
