//! The residual stream, and how the parts of a block read from it and add to it.
//!
//! A part normalises its input (Xiong et al., arXiv 2002.04745), its output (OLMo 2, arXiv 2501.00656), or both (Gemma
//! 2, arXiv 2408.00118), or the sum of the stream and its output (the first transformers). The output may be scaled
//! (Granite). Parallel parts read the stream as it was before their block (PaLM, arXiv 2204.02311, section 2).

use cairn_tensor::{BufferId, Op};

use super::Norm;
use crate::build::Builder;
use crate::hparams::Hparams;

/// Activations of a transformer block, reused in every layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// The residual stream, `[rows, embedding]`.
    pub(crate) residual: BufferId,
    /// The normalised input of a part, then its output; `[rows, embedding]`.
    pub(crate) branch: BufferId,
    /// The normalised input of a part: `branch`, or a buffer that parallel parts share.
    input: BufferId,
    norms: Norms,
    /// Factor of the output of parts.
    scale: Option<f32>,
    norm: Norm,
}

/// Positions of norms in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Norms {
    /// Before the part: normalises its input.
    Before,
    /// After the part: normalises its output.
    After,
    /// Before and after the part.
    Both,
    /// After the output was added to the stream: normalises the sum.
    Sum,
    /// None in the part. [`Stream::fill`] normalises its input.
    Filled,
}

/// The names of a part's norms, without layer and `.weight`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    before: &'static str,
    after: &'static str,
    sum: &'static str,
}

impl Part {
    pub(crate) const ATTENTION: Self =
        Self { before: "attn_norm", after: "post_attention_norm", sum: "attn_output_norm" };
    /// The MLP of models that name its norm after the preceding part.
    pub(crate) const MLP_AFTER_ATTENTION: Self = Self { before: "post_attention_norm", ..Self::MLP };
    pub(crate) const MLP: Self = Self { before: "ffn_norm", after: "post_ffw_norm", sum: "layer_output_norm" };
}

impl Stream {
    /// Creates a stream whose parts normalise their input.
    pub(crate) fn new(b: &mut Builder<'_>, hparams: &Hparams) -> Self {
        let width = hparams.embedding_length;
        let norm = Norm::new(hparams);
        let (residual, branch) = (b.buffer(width), b.buffer(width));
        Self { residual, branch, input: branch, norms: Norms::Before, scale: None, norm }
    }

    /// Returns the stream of parallel parts: their input is filled before the first of them adds its output.
    pub(crate) fn parallel(&self, b: &mut Builder<'_>, hparams: &Hparams) -> Self {
        Self { input: b.buffer(hparams.embedding_length), norms: Norms::Filled, ..*self }
    }

    /// Fills the input of parallel parts with the stream, normalised by the norm of this name.
    pub(crate) fn fill(&self, b: &mut Builder<'_>, norm: &str, layer: usize) {
        self.norm.push(b, &format!("blk.{layer}.{norm}"), self.residual, self.input);
    }

    pub(crate) fn norms(self, norms: Norms) -> Self {
        Self { norms, ..self }
    }

    pub(crate) fn scale(self, scale: Option<f32>) -> Self {
        Self { scale, ..self }
    }

    /// Adds `out = norm(x)` with the norm of this name.
    pub(crate) fn normalise(&self, b: &mut Builder<'_>, norm: &str, [x, out]: [BufferId; 2], layer: usize) {
        self.norm.push(b, &format!("blk.{layer}.{norm}"), x, out);
    }

    /// Begins a part and returns its input buffer.
    pub(crate) fn enter(&self, b: &mut Builder<'_>, part: Part, layer: usize) -> BufferId {
        match self.norms {
            Norms::Before | Norms::Both => {
                self.fill(b, part.before, layer);
                self.input
            }
            Norms::After | Norms::Sum => self.residual,
            Norms::Filled => self.input,
        }
    }

    /// Ends a part: adds its output to the residual stream.
    pub(crate) fn leave(&self, b: &mut Builder<'_>, part: Part, layer: usize) {
        if matches!(self.norms, Norms::After | Norms::Both) {
            self.norm.push(b, &format!("blk.{layer}.{}", part.after), self.branch, self.branch);
        }
        if let Some(factor) = self.scale {
            b.push(Op::Scale { x: self.branch, factor });
        }
        b.push(Op::Add { x: self.residual, y: self.branch });
        if self.norms == Norms::Sum {
            self.norm.push(b, &format!("blk.{layer}.{}", part.sum), self.residual, self.residual);
        }
    }
}
