//! GPT-2: learned positions, and matrices with rows and columns swapped.

use super::super::config::{Config, MAX_WIDTH};
use super::super::decoder::{Decoder, Dim, OUTPUT, PLAIN, Row, row};
use super::super::error::{ConvertError, unsupported};

const TABLES: &[Row] = &[
    row("wte", "token_embd", &[Dim::Width, Dim::Any]),
    row("wpe", "position_embd", &[Dim::Width, Dim::Any]),
    row("ln_f", "output_norm", &[Dim::Width]),
    row(OUTPUT, "output", &[Dim::Width, Dim::Any]),
];

const LAYER: &[Row] = &[
    row("ln_1", "attn_norm", &[Dim::Width]),
    row("ln_2", "ffn_norm", &[Dim::Width]),
    row("attn.c_attn", "attn_qkv", &[Dim::Width, Dim::Fused]).transposed(),
    row("attn.c_proj", "attn_output", &[Dim::Query, Dim::Width]).transposed(),
    row("mlp.c_fc", "ffn_up", &[Dim::Width, Dim::Inner]).transposed(),
    row("mlp.c_proj", "ffn_down", &[Dim::Inner, Dim::Width]).transposed(),
];

pub(super) const GPT_2: Decoder = Decoder {
    architectures: &["GPT2LMHeadModel"],
    name: "gpt2",
    tables: TABLES,
    layer: &[LAYER],
    activations: &["gelu_new", "gelu_pytorch_tanh"],
    prepare,
    more: |config, _| {
        for key in ["scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"] {
            if config.flag(key)? == Some(true) {
                return Err(unsupported(format!("gpt2 with {key}")));
            }
        }
        Ok(())
    },
    ..PLAIN
};

fn prepare(config: &mut Config) -> Result<(), ConvertError> {
    config.rename(&[
        ("n_layer", "num_hidden_layers"),
        ("n_embd", "hidden_size"),
        ("n_head", "num_attention_heads"),
        ("n_positions", "max_position_embeddings"),
        ("n_ctx", "max_position_embeddings"),
        ("n_inner", "intermediate_size"),
    ]);
    let width = config.count("hidden_size", MAX_WIDTH)?;
    config.set_default("intermediate_size", width.saturating_mul(4));
    Ok(())
}
