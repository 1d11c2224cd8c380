//! Qwen 3 with experts (arXiv 2505.09388): as Qwen 3, with a mixture of experts instead of every MLP. The text part
//! of Qwen 3 VL with experts (arXiv 2511.21631) has another name.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, Deepstack, Experts, QueryKeyNorm, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

pub(super) struct Qwen3Moe;

impl Architecture for Qwen3Moe {
    fn names(&self) -> &'static [&'static str] {
        &["qwen3moe", "qwen3vlmoe"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope).norm(QueryKeyNorm::Head);
        let experts = Experts::new(b, &hparams, None)?;
        let deepstack = Deepstack::read(b, &hparams)?;
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            experts.push(b, &hparams, &stream, layer);
            deepstack.push(b, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
