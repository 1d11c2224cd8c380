//! Gated short convolutions (LFM2, arXiv 2511.23404): `out(after * conv(before * x))`, where `before`, `after` and `x` are projections of
//! the input and the convolution is over the last few rows, separately for each element.

use cairn_tensor::{BufferId, Op};

use super::Stream;
use super::stream::Part;
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

/// Most rows of a convolution: more than in any model.
const MAX_KERNEL: u32 = 16;

/// Parameters and buffers of a model's short convolutions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortConv {
    /// Number of rows that an output depends on.
    kernel: usize,
    before: BufferId, // [rows, embedding]
    after: BufferId,  // [rows, embedding]
    x: BufferId,      // [rows, embedding]
    out: BufferId,    // [rows, embedding]
}

impl ShortConv {
    /// Reads the number of rows, `shortconv.l_cache`.
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams) -> Result<Self, LoadError> {
        const KERNEL: &str = "shortconv.l_cache";
        let keys = Keys::new(b.metadata())?;
        let kernel = keys.count(KERNEL, None, MAX_KERNEL)?;
        if kernel < 2 {
            return Err(keys.invalid(KERNEL, "a convolution of one row has no state"));
        }
        let [before, after, x, out] = [hparams.embedding_length; 4].map(|width| b.buffer(width));
        Ok(Self { kernel, before, after, x, out })
    }

    /// Adds `residual += convolution(x)`, where the stream provides `x`. The layer's state has the rows before the next one.
    pub(crate) fn push(&self, b: &mut Builder<'_>, hparams: &Hparams, stream: &Stream, layer: usize) {
        let &Self { kernel, before, after, x, out } = self;
        let width = hparams.embedding_length;
        let name = |part: &str| format!("blk.{layer}.shortconv.{part}");
        let input = stream.enter(b, Part::ATTENTION, layer);
        let parts = [before, after, x].into_iter().enumerate();
        let project = |(nth, to)| b.projection_rows(&name("in_proj"), 3 * width, nth * width, width, to);
        let projections = parts.map(project).collect();
        b.push(Op::MatMul { x: input, projections });
        b.push(Op::Mul { x: before, y: x });
        let state = b.plan.recurrent((kernel - 1) * width);
        let weight = b.matrix(&name("conv.weight"), width, kernel);
        b.push(Op::Conv { state, x: before, weight, bias: None, out });
        b.push(Op::Mul { x: out, y: after });
        let projections = vec![b.projection(&name("out_proj"), width, stream.branch)];
        b.push(Op::MatMul { x: out, projections });
        stream.leave(b, Part::ATTENTION, layer);
    }
}
