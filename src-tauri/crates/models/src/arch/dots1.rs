//! dots.llm1 (arXiv 2506.05767): norms over each head of queries and keys, MLPs in the first layers, then experts chosen by
//! sigmoids with a bias, and shared experts.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, Experts, GatedMlp, QueryKeyNorm, SharedExpert, SparseMlp, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

pub(super) struct Dots1;

impl Architecture for Dots1 {
    fn names(&self) -> &'static [&'static str] {
        &["dots1"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope).norm(QueryKeyNorm::Head);
        let mlp = GatedMlp::new(b, &hparams);
        let experts = Experts::new(b, &hparams, None)?.router_of_file(b)?;
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
