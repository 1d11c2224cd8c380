//! The residual stream, and how the parts of a block read from it and add to it.
//!
//! A part normalises its input (Xiong et al., arXiv 2002.04745), its output (OLMo 2, arXiv 2501.00656), or both (Gemma
//! 2, arXiv 2408.00118), or the sum of the stream and its output (the first transformers). The output may be scaled
//! (Granite).

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
        Self { residual: b.buffer(width), branch: b.buffer(width), norms: Norms::Before, scale: None, norm }
    }

    pub(crate) fn norms(self, norms: Norms) -> Self {
        Self { norms, ..self }
    }

    pub(crate) fn scale(self, scale: Option<f32>) -> Self {
        Self { scale, ..self }
    }

    /// Begins a part and returns its input buffer.
    pub(crate) fn enter(&self, b: &mut Builder<'_>, part: Part, layer: usize) -> BufferId {
        match self.norms {
            Norms::Before | Norms::Both => {
                self.norm.push(b, &format!("blk.{layer}.{}", part.before), self.residual, self.branch);
                self.branch
            }
            Norms::After | Norms::Sum => self.residual,
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
