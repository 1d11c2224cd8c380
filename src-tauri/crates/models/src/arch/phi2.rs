//! Phi 1, 1.5 and 2 (arXiv 2306.11644, 2309.05463): attention and MLP in parallel, LayerNorm with biases, biases in every
//! projection and on logits, an MLP without a gate, RoPE over a part of each head.

use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, PlainMlp, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, NormKind};

/// Biases that llama.cpp requires. Those of queries, keys and values are optional.
const BIASES: &[&str] = &["attn_norm", "attn_output", "ffn_up", "ffn_down", "output_norm"];

pub(super) struct Phi2;

impl Architecture for Phi2 {
    fn names(&self) -> &'static [&'static str] {
        &["phi2"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read_with(b, NormKind::Layer)?;
        b.require_biases(BIASES);
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams).parallel(b, &hparams);
        let attention = Attention::new(b, &hparams, rope);
        let mlp = PlainMlp::new(b, &hparams);
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            stream.fill(b, "attn_norm", layer);
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
