//! GPT-NeoX (arXiv 2204.06745) and Pythia: LayerNorm with biases, biases in every projection, queries, keys and values in
//! one tensor, an MLP without a gate, RoPE over a part of each head. In most models attention and MLP are parallel, each
//! with its own norm.
//!
//! GELU is computed with tanh, as in llama.cpp. The models were trained with the error function.

use cairn_gguf::Error;
use cairn_tensor::RopeStyle;

use super::Architecture;
use crate::block::rope::rope;
use crate::block::{Attention, PlainMlp, Stream, embed, logits};
use crate::build::Builder;
use crate::error::LoadError;
use crate::hparams::{Hparams, Keys, NormKind};

/// Biases that every file has.
const BIASES: &[&str] = &["attn_norm", "attn_qkv", "attn_output", "ffn_norm", "ffn_up", "ffn_down", "output_norm"];

pub(super) struct GptNeoX;

impl Architecture for GptNeoX {
    fn names(&self) -> &'static [&'static str] {
        &["gptneox"]
    }

    fn build(&self, b: &mut Builder<'_>) -> Result<Hparams, LoadError> {
        const PARALLEL: &str = "use_parallel_residual";
        let mut hparams = Hparams::read_with(b, NormKind::Layer)?;
        let keys = Keys::new(b.metadata())?;
        let is_parallel = keys.bool(PARALLEL)?.ok_or_else(|| Error::MissingKey { key: keys.name(PARALLEL) })?;
        b.require_biases(BIASES);
        let rope = rope(b, &mut hparams, RopeStyle::Half)?;
        let stream = Stream::new(b, &hparams);
        let parallel = is_parallel.then(|| stream.parallel(b, &hparams));
        let attention = Attention::new(b, &hparams, rope).fused();
        let mlp = PlainMlp::new(b, &hparams);
        embed(b, &hparams, &stream);
        for layer in 0..hparams.layers {
            parallel.iter().for_each(|parallel| parallel.fill(b, "ffn_norm", layer));
            attention.push(b, &hparams, &stream, layer);
            mlp.push(b, &hparams, parallel.as_ref().unwrap_or(&stream), layer);
        }
        logits(b, &hparams, &stream);
        Ok(hparams)
    }
}
