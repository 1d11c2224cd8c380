//! EmbeddingGemma (Vera et al., arXiv 2509.20354): Gemma 3 with attention in both directions, in layers with a
//! sliding window to half a window on each side. Two matrices without an activation follow the mean. They are applied to
//! each row before the mean, which is the same because both are linear.

use cairn_tensor::{Glu, Op, RopeStyle, Rows};

use super::hparams;
use crate::arch::Architecture;
use crate::block::gemma::{embed_scaled, score_scale};
use crate::block::rope::{local_rope, rope};
use crate::block::sliding_window::SlidingWindows;
use crate::block::{Attention, GatedMlp, Norm, Norms, QueryKeyNorm, Stream, output_rows};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, MAX_WIDTH, NormKind};

/// No published model has this many layers: the scale of scores never depends on the width.
const NO_LAYERS: usize = 0;

pub(super) struct GemmaEmbedding;

impl Architecture for GemmaEmbedding {
    fn names(&self) -> &'static [&'static str] {
        &["gemma-embedding"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = hparams(b, NormKind::Rms)?;
        let keys = Keys::new(b.metadata())?;
        let global = rope(b, &mut hparams, RopeStyle::Half)?;
        let local = local_rope(b, &hparams, RopeStyle::Half, Some(10_000.0))?;
        let windows = SlidingWindows::read(&keys, &hparams, None, 6)?;
        let stream = Stream::new(b, &hparams).norms(Norms::Both);
        let attention = Attention::new(b, &hparams, global)
            .windows(windows, local)
            .norm(QueryKeyNorm::Head)
            .scale(score_scale(&hparams, NO_LAYERS));
        let mlp = GatedMlp::new(b, &hparams).activation(Glu::Gelu);
        embed_scaled(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
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
