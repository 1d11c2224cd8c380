//! Phi 1.5 and 2: attention and MLP read one norm, and every projection has a bias.

use super::super::decoder::{ATTENTION, Decoder, Dim, OUTPUT, PLAIN, Row, row};
use super::super::error::unsupported;
use super::llama::add_rotated_dims;

const TABLES: &[Row] = &[
    row("embed_tokens", "token_embd", &[Dim::Width, Dim::Any]),
    row("final_layernorm", "output_norm", &[Dim::Width]),
    row(OUTPUT, "output", &[Dim::Width, Dim::Any]),
];

const LAYER: &[Row] = &[
    row("input_layernorm", "attn_norm", &[Dim::Width]),
    row("self_attn.dense", "attn_output", &[Dim::Query, Dim::Width]),
    row("mlp.fc1", "ffn_up", &[Dim::Width, Dim::Inner]),
    row("mlp.fc2", "ffn_down", &[Dim::Inner, Dim::Width]),
];

pub(super) const PHI_2: Decoder = Decoder {
    architectures: &["PhiForCausalLM"],
    name: "phi2",
    tables: TABLES,
    layer: &[ATTENTION, LAYER],
    activations: &["gelu_new", "gelu_pytorch_tanh"],
    prepare: |config| {
        config.set_default("partial_rotary_factor", 0.5);
        Ok(())
    },
    more: |config, metadata| {
        if config.flag("qk_layernorm")? == Some(true) {
            return Err(unsupported("phi2 with qk_layernorm"));
        }
        add_rotated_dims(config, "phi2", metadata)
    },
    ..PLAIN
};
