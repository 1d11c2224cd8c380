//! Qwen 3, dense (arXiv 2505.09388): like llama, but each head of queries and keys is normalised before it is rotated,
//! the head size is independent of the width, and RoPE pairs the two halves of a head. The text part of Qwen 3 VL (arXiv
//! 2511.21631) has another name.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, Deepstack, GatedMlp, QueryKeyNorm, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

pub(super) struct Qwen3;

impl Architecture for Qwen3 {
    fn names(&self) -> &'static [&'static str] {
        &["qwen3", "qwen3vl"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope).norm(QueryKeyNorm::Head);
        let mlp = GatedMlp::new(b, &hparams);
        let deepstack = Deepstack::read(b, &hparams)?;
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
            deepstack.push(b, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
