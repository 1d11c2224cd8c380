//! Phi 3 and 4 (arXiv 2404.14219, 2412.08905): like llama, with queries, keys and values in one tensor, gate and linear
//! part in another, RoPE over halves, and LongRoPE for long contexts.
//!
//! `attention.sliding_window` is not read, as in llama.cpp: files carry windows that the models were not trained with.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, GatedMlp, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::Hparams;

pub(super) struct Phi3;

impl Architecture for Phi3 {
    fn names(&self) -> &'static [&'static str] {
        &["phi3"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read(b)?;
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, rope).fused();
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
