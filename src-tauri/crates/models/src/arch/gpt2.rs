//! GPT-2 (Radford et al., 2019,
//! <https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf>): learned
//! positions instead of RoPE, LayerNorm with biases, biases in every projection, queries, keys and values in one tensor,
//! an MLP without a gate.

use super::Architecture;
use crate::block::{Attention, PlainMlp, Stream, add_positions, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, NormKind};

/// Biases that every file has.
const BIASES: &[&str] = &["attn_norm", "attn_qkv", "attn_output", "ffn_norm", "ffn_up", "ffn_down", "output_norm"];

pub(super) struct Gpt2;

impl Architecture for Gpt2 {
    fn names(&self) -> &'static [&'static str] {
        &["gpt2"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        let hparams = Hparams::read_with(b, NormKind::Layer)?;
        b.require_biases(BIASES);
        let stream = Stream::new(b, &hparams);
        let attention = Attention::new(b, &hparams, None).fused();
        let mlp = PlainMlp::new(b, &hparams);
        embed(b, &hparams, &stream);
        add_positions(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, &stream, layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
