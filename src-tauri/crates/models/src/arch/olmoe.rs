//! OLMoE (arXiv 2409.02060): llama with experts, each as wide as `feed_forward_length`, and norms over all heads of queries and
//! keys.

use cairn_tensor::{Gating, RopeStyle};

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, Experts, QueryKeyNorm, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

pub(super) struct Olmoe;

impl Architecture for Olmoe {
    fn names(&self) -> &'static [&'static str] {
        &["olmoe"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope).norm(QueryKeyNorm::Row);
        let inner = Some(hparams.feed_forward_length);
        let gating = Gating::Softmax { renormalise: false };
        let experts = Experts::new(b, &hparams, inner)?.gating(gating).scale_of_file(b)?;
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            experts.push(b, &hparams, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
