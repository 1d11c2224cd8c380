//! GPT-NeoX and Pythia: queries, keys and values of each head are together in checkpoints.

use super::super::config::{Config, MAX_ORDERED_HEADS};
use super::super::decoder::{Decoder, Dim, OUTPUT, Order, PLAIN, Row, head_dim, row};
use super::super::error::ConvertError;
use super::llama::add_rotated_dims;

const TABLES: &[Row] = &[
    row("embed_in", "token_embd", &[Dim::Width, Dim::Any]),
    row("final_layer_norm", "output_norm", &[Dim::Width]),
    row("embed_out", "output", &[Dim::Width, Dim::Any]),
    row(OUTPUT, "output", &[Dim::Width, Dim::Any]),
];

const LAYER: &[Row] = &[
    row("input_layernorm", "attn_norm", &[Dim::Width]),
    row("post_attention_layernorm", "ffn_norm", &[Dim::Width]),
    row("attention.query_key_value", "attn_qkv", &[Dim::Width, Dim::Fused]).order(by_parts),
    row("attention.dense", "attn_output", &[Dim::Query, Dim::Width]),
    row("mlp.dense_h_to_4h", "ffn_up", &[Dim::Width, Dim::Inner]),
    row("mlp.dense_4h_to_h", "ffn_down", &[Dim::Inner, Dim::Width]),
];

pub(super) const GPT_NEO_X: Decoder = Decoder {
    architectures: &["GPTNeoXForCausalLM"],
    name: "gptneox",
    tables: TABLES,
    layer: &[LAYER],
    activations: &["gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"],
    prepare: |config| {
        config.rename(&[("rotary_pct", "partial_rotary_factor"), ("rotary_emb_base", "rope_theta")]);
        config.set_default("partial_rotary_factor", 0.25);
        Ok(())
    },
    more: |config, metadata| {
        let is_parallel = config.flag("use_parallel_residual")?.unwrap_or(true);
        metadata.set("gptneox.use_parallel_residual", is_parallel);
        add_rotated_dims(config, "gptneox", metadata)
    },
    ..PLAIN
};

/// The queries of all heads, then the keys, then the values.
fn by_parts(config: &Config) -> Result<Order, ConvertError> {
    let (heads, dim) = (u64::from(config.count("num_attention_heads", MAX_ORDERED_HEADS)?), head_dim(config)?);
    let rows = (0..3).flat_map(|part| {
        (0..heads).map(move |head| {
            let first = (3 * head + part) * dim;
            first..first + dim
        })
    });
    Ok(Order::rows(rows))
}
