//! gpt-oss: experts in 4-bit blocks. Their rows of gate and linear part alternate. Without blocks, rows and columns of experts
//! are swapped.

use super::super::decoder::{ATTENTION, Decoder, Dim, PLAIN, Row, optional_count, row};
use super::super::family::Select;

const LAYER: &[Row] = &[
    row("input_layernorm", "attn_norm", &[Dim::Width]),
    row("post_attention_layernorm", "post_attention_norm", &[Dim::Width]),
    row("self_attn.sinks", "attn_sinks", &[Dim::Heads]),
    row("mlp.router", "ffn_gate_inp", &[Dim::Width, Dim::Experts]),
    row("mlp.experts.gate_up_proj", "ffn_gate_exps", &[Dim::Width, Dim::Inner, Dim::Experts])
        .select(Select::Even)
        .transposed(),
    row("mlp.experts.gate_up_proj", "ffn_up_exps", &[Dim::Width, Dim::Inner, Dim::Experts])
        .select(Select::Odd)
        .transposed(),
    row("mlp.experts.down_proj", "ffn_down_exps", &[Dim::Inner, Dim::Width, Dim::Experts]).transposed(),
];

pub(super) const GPT_OSS: Decoder = Decoder {
    architectures: &["GptOssForCausalLM"],
    name: "gpt-oss",
    keys: &[
        optional_count("attention.sliding_window", &["sliding_window"]),
        optional_count("expert_feed_forward_length", &["intermediate_size"]),
    ],
    layer: &[ATTENTION, LAYER],
    ..PLAIN
};
