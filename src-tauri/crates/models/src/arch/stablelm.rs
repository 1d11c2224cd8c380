//! StableLM 3B and Stable LM 2 1.6B (arXiv 2402.17834): like Qwen 2, with LayerNorm, and RoPE over a part of each head.
//!
//! Stable LM 2 12B has a separate norm for each head of queries and keys, which no plan can compute.

use cairn_tensor::RopeStyle;

use super::{Architecture, refuse_head_norms};
use crate::block::rope::rope;
use crate::block::{Attention, GatedMlp, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, NormKind};

/// Biases that llama.cpp requires. Those of queries, keys and values are optional.
const BIASES: &[&str] = &["attn_norm", "ffn_norm", "output_norm"];

pub(super) struct StableLm;

impl Architecture for StableLm {
    fn names(&self) -> &'static [&'static str] {
        &["stablelm"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let mut hparams = Hparams::read_with(b, NormKind::Layer)?;
        refuse_head_norms(b)?;
        b.require_biases(BIASES);
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
