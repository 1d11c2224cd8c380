//! Qwen 1.5 and 2 with experts (arXiv 2407.10671): as Qwen 2, with a mixture of experts instead of every MLP, and a shared
//! expert; each row weighs its output.

use cairn_tensor::{Gating, RopeStyle};

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, Experts, SharedExpert, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

pub(super) struct Qwen2Moe;

impl Architecture for Qwen2Moe {
    fn names(&self) -> &'static [&'static str] {
        &["qwen2moe"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope);
        let shared = SharedExpert::new(b, &hparams, Some(hparams.feed_forward_length))?;
        let shared = shared.map(|shared| shared.weighted(b));
        let gating = Gating::Softmax { renormalise: false };
        let experts = Experts::new(b, &hparams, None)?.gating(gating).scale_of_file(b)?.shared(shared);
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            experts.push(b, &hparams, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
