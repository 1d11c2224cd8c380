//! EXAONE 3: Llama with the names of GPT-2; and EXAONE 4: norms after attention and MLP, and over each head of queries
//! and keys.

use super::super::config::MAX_WIDTH;
use super::super::decoder::{ATTENTION, Decoder, Dim, MLP, OUTPUT, PLAIN, Row, optional_count, row};
use super::llama::add_rotated_dims;
use super::windows;

const TABLES: &[Row] = &[
    row("wte", "token_embd", &[Dim::Width, Dim::Any]),
    row("ln_f", "output_norm", &[Dim::Width]),
    row(OUTPUT, "output", &[Dim::Width, Dim::Any]),
];

const LAYER: &[Row] = &[
    row("ln_1", "attn_norm", &[Dim::Width]),
    row("ln_2", "ffn_norm", &[Dim::Width]),
    row("attn.attention.q_proj", "attn_q", &[Dim::Width, Dim::Query]),
    row("attn.attention.k_proj", "attn_k", &[Dim::Width, Dim::KeyValue]),
    row("attn.attention.v_proj", "attn_v", &[Dim::Width, Dim::KeyValue]),
    row("attn.attention.out_proj", "attn_output", &[Dim::Query, Dim::Width]),
    row("mlp.c_fc_0", "ffn_gate", &[Dim::Width, Dim::Inner]),
    row("mlp.c_fc_1", "ffn_up", &[Dim::Width, Dim::Inner]),
    row("mlp.c_proj", "ffn_down", &[Dim::Inner, Dim::Width]),
];

pub(super) const EXAONE: Decoder = Decoder {
    architectures: &["ExaoneForCausalLM"],
    name: "exaone",
    tables: TABLES,
    layer: &[LAYER],
    prepare: |config| {
        config.rename(&[("num_layers", "num_hidden_layers"), ("layer_norm_epsilon", "rms_norm_eps")]);
        config.set("layer_norm_epsilon", serde_json::Value::Null);
        Ok(())
    },
    more: |config, metadata| add_rotated_dims(config, "exaone", metadata),
    ..PLAIN
};

const NORMS: &[Row] = &[
    row("post_attention_layernorm", "post_attention_norm", &[Dim::Width]),
    row("post_feedforward_layernorm", "post_ffw_norm", &[Dim::Width]),
    row("self_attn.q_norm", "attn_q_norm", &[Dim::Head]),
    row("self_attn.k_norm", "attn_k_norm", &[Dim::Head]),
];

pub(super) const EXAONE_4: Decoder = Decoder {
    architectures: &["Exaone4ForCausalLM"],
    name: "exaone4",
    keys: &[optional_count("vocab_size", &["vocab_size"])],
    layer: &[ATTENTION, MLP, NORMS],
    more: |config, metadata| {
        // Small models have a pattern and no window.
        let Some(window) = config.optional_count(&["sliding_window"], MAX_WIDTH)? else { return Ok(()) };
        metadata.set("exaone4.attention.sliding_window", window);
        windows::add_pattern(config, "exaone4", metadata)
    },
    ..PLAIN
};
