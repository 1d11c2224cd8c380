//! Norms over the residual stream: by the root of the mean of squares (RMSNorm: Zhang & Sennrich, arXiv 1910.07467), or
//! by mean and variance with a bias (LayerNorm: Ba et al., arXiv 1607.06450).

use cairn_tensor::{BufferId, Op};

use crate::build::Builder;
use crate::hparams::{Hparams, NormKind};

/// Norm over rows of the residual stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Norm {
    kind: NormKind,
    width: usize,
    eps: f32,
}

impl Norm {
    pub(crate) fn new(hparams: &Hparams) -> Self {
        Self { kind: hparams.norm, width: hparams.embedding_length, eps: hparams.epsilon }
    }

    /// Adds `out = norm(x)` with `{prefix}.weight`, and `{prefix}.bias` if the model has it.
    pub(crate) fn push(&self, b: &mut Builder<'_>, prefix: &str, x: BufferId, out: BufferId) {
        let &Self { kind, width, eps } = self;
        let weight = b.vector(&format!("{prefix}.weight"), width);
        let op = match kind {
            NormKind::Rms => Op::RmsNorm { x, weight, eps, group: width, out },
            NormKind::Layer => {
                let bias = format!("{prefix}.bias");
                let bias = b.has_bias(&bias).then(|| b.vector(&bias, width));
                Op::LayerNorm { x, weight, bias, eps, out }
            }
        };
        b.push(op);
    }
}
