//! EmbeddingGemma (Vera et al., arXiv 2509.20354): Gemma 3 with attention in both directions, in layers with a
//! sliding window to half a window on each side. Two matrices without an activation follow the mean. They are applied to
//! each row before the mean, which is the same because both are linear.

use cairn_tensor::{Op, Rows};

use super::hparams;
use crate::arch::Architecture;
use crate::block::gemma::gemma3_layers;
use crate::block::{Norm, output_rows};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, MAX_WIDTH, NormKind};

pub(super) struct GemmaEmbedding;

impl Architecture for GemmaEmbedding {
    fn names(&self) -> &'static [&'static str] {
        &["gemma-embedding"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = hparams(b, NormKind::Rms)?;
        let keys = Keys::new(b.metadata())?;
        let stream = gemma3_layers(b, &mut hparams, None)?;
        let mut x = output_rows(b, &hparams, &stream);
        Norm::new(&hparams).push(b, "output_norm", x, x);
        let mut width = hparams.embedding_length;
        for (name, size) in [("dense_2", "dense_2_feat_out"), ("dense_3", "dense_3_feat_out")] {
            if b.has_tensor(&format!("{name}.weight")) {
                let out_width = keys.count(size, None, MAX_WIDTH)?;
                let out = b.plan.buffer(Rows::Logits, out_width);
                let projections = vec![b.projection(name, width, out)];
                b.push(Op::MatMul { x, projections });
                (x, width) = (out, out_width);
            }
        }
        b.plan.logits = Some(x);
        Ok(hparams)
    }
}
