//! Llama 1 to 3, Mistral and Mixtral, with the names of the `transformers` library. Their sliding windows are left out, as in
//! llama.cpp.

use cairn_gguf::Metadata;

use super::super::config::{Config, MAX_WIDTH};
use super::super::decoder::{ATTENTION, Decoder, Dim, MLP, NORMS, PLAIN, Row, optional_count, rotated_dims, row};
use super::super::error::ConvertError;

/// Experts of Mixtral.
const EXPERTS: &[Row] = &[
    row("block_sparse_moe.gate", "ffn_gate_inp", &[Dim::Width, Dim::Experts]),
    row("block_sparse_moe.experts.*.w1", "ffn_gate_exps", &[Dim::Width, Dim::Inner, Dim::Experts]),
    row("block_sparse_moe.experts.*.w2", "ffn_down_exps", &[Dim::Inner, Dim::Width, Dim::Experts]),
    row("block_sparse_moe.experts.*.w3", "ffn_up_exps", &[Dim::Width, Dim::Inner, Dim::Experts]),
];

pub(super) const LLAMA: Decoder = Decoder {
    architectures: &["LlamaForCausalLM", "LLaMAForCausalLM", "MistralForCausalLM", "MixtralForCausalLM"],
    name: "llama",
    keys: &[optional_count("vocab_size", &["vocab_size"])],
    layer: &[ATTENTION, MLP, NORMS, EXPERTS],
    interleaves_heads: true,
    more: |config, metadata| add_rotated_dims(config, "llama", metadata),
    ..PLAIN
};

/// Adds the number of rotated elements of a head.
pub(super) fn add_rotated_dims(
    config: &Config,
    architecture: &str,
    metadata: &mut Metadata,
) -> Result<(), ConvertError> {
    let dims = rotated_dims(config)?.min(u64::from(MAX_WIDTH));
    metadata.set(format!("{architecture}.rope.dimension_count"), dims as u32);
    Ok(())
}
