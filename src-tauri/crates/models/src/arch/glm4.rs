//! GLM 4 of 2025, dense (<https://huggingface.co/zai-org/GLM-4-32B-0414>; arXiv 2406.12793): parts normalise input and
//! output, gate and linear part are one tensor, and RoPE rotates a part of each head.
//!
//! GGUF writers permute the query and key rows of models with M-RoPE, so that the two halves of the rotated part form
//! RoPE's pairs.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::{has_sections, rope};
use crate::block::{Attention, GatedMlp, Norms, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys};

pub(super) struct Glm4;

impl Architecture for Glm4 {
    fn names(&self) -> &'static [&'static str] {
        &["glm4"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let is_permuted = has_sections(&Keys::new(b.metadata())?)?;
        let style = if is_permuted { RopeStyle::Half } else { RopeStyle::Interleaved };
        let rope = rope(b, &mut hparams, style)?;
        let stream = Stream::new(b, &hparams).norms(Norms::Both);
        let attention = Attention::new(b, &hparams, rope);
        let mlp = GatedMlp::new(b, &hparams).fused();
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
