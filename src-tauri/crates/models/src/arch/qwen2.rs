//! Qwen 2 and 2.5 (arXiv 2407.10671, 2412.15115): like llama, with biases on queries, keys and values, and RoPE over
//! the two halves of a head. YaRN extends the context. EXAONE 3 and 3.5 (arXiv 2408.03541, 2412.04862) have no biases.
//! The text part of Qwen 2 and 2.5 VL (arXiv 2409.12191, 2502.13923) has another name.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, GatedMlp, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

pub(super) struct Qwen2;

impl Architecture for Qwen2 {
    fn names(&self) -> &'static [&'static str] {
        &["qwen2", "exaone", "qwen2vl"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope);
        let mlp = GatedMlp::new(b, &hparams);
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
