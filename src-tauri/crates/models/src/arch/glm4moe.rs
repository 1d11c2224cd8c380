//! GLM 4.5, 4.6 and 4.7 (arXiv 2508.06471): RoPE over a part of each head, optional norms over each head of queries and keys, MLPs
//! in the first layers, then experts chosen by sigmoids with a bias, and a shared expert.
//!
//! The last `nextn_predict_layers` layers predict further tokens, and are not computed. `rope.dimension_sections` has no effect on
//! text: the components of its positions are equal.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::stream::Part;
use crate::block::{Attention, Experts, GatedMlp, QueryKeyNorm, SharedExpert, SparseMlp, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

pub(super) struct Glm4Moe;

impl Architecture for Glm4Moe {
    fn names(&self) -> &'static [&'static str] {
        &["glm4moe"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams);
        let has_norms = b.has_tensor("blk.0.attn_q_norm.weight");
        let norm = if has_norms { QueryKeyNorm::Head } else { QueryKeyNorm::None };
        let attention = Attention::new(b, &hparams, rope).norm(norm);
        let part = Part::MLP_AFTER_ATTENTION;
        let mlp = GatedMlp::new(b, &hparams).part(part);
        let experts = Experts::new(b, &hparams, None)?.part(part).router_of_file(b)?;
        let shared = SharedExpert::of_count(b, &hparams, experts.inner())?;
        let mlp = SparseMlp::new(b, &hparams, mlp, experts.shared(shared))?;
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
