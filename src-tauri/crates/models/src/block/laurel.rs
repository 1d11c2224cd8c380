//! Learned augmented residual layer of low rank (LAuReL: Menghani et al., arXiv 2411.07501): a product of two small matrices beside
//! attention.

use cairn_tensor::{BufferId, Op};

use crate::build::Builder;
use crate::hparams::Hparams;

/// Rank of published models, for lists of tensors without a file.
const RANK: usize = 64;

/// Buffers of these layers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Laurel {
    rank: usize,
    low: BufferId, // [rows, rank]
    /// Its output, `[rows, embedding]`.
    pub(crate) out: BufferId,
}

impl Laurel {
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams) -> Self {
        let rank = b.rows_of("blk.0.laurel_l.weight").unwrap_or(RANK).max(1);
        Self { rank, low: b.buffer(rank), out: b.buffer(hparams.embedding_length) }
    }

    /// Adds `out = x + norm(right(left(x)))`.
    pub(crate) fn compute(&self, b: &mut Builder<'_>, hparams: &Hparams, x: BufferId, layer: usize) {
        let &Self { rank, low, out } = self;
        let (width, name) = (hparams.embedding_length, |part: &str| format!("blk.{layer}.{part}"));
        let projections = vec![b.projection(&name("laurel_l"), width, low)];
        b.push(Op::MatMul { x, projections });
        let projections = vec![b.projection(&name("laurel_r"), rank, out)];
        b.push(Op::MatMul { x: low, projections });
        let weight = b.vector(&name("laurel_post_norm.weight"), width);
        b.push(Op::RmsNorm { x: out, weight, eps: hparams.epsilon, group: width, out });
        b.push(Op::Add { x: out, y: x });
    }
}
