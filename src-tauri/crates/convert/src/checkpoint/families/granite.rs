//! Granite 3: Llama with four factors, with MLPs or with experts and perhaps a shared one.

use super::super::decoder::{
    ATTENTION, Decoder, Dim, Key, NORMS, PLAIN, Row, SHARED_INNER, number, optional_count, row,
};
use super::super::family::Select;
use super::llama::add_rotated_dims;

const VOCABULARY: Key = optional_count("vocab_size", &["vocab_size"]);
const ATTENTION_SCALE: Key = number("attention.scale", &["attention_multiplier"]);
const EMBEDDING_SCALE: Key = number("embedding_scale", &["embedding_multiplier"]);
const RESIDUAL_SCALE: Key = number("residual_scale", &["residual_multiplier"]);
const LOGIT_SCALE: Key = number("logit_scale", &["logits_scaling"]);

pub(super) const GRANITE: Decoder = Decoder {
    architectures: &["GraniteForCausalLM"],
    name: "granite",
    keys: &[VOCABULARY, ATTENTION_SCALE, EMBEDDING_SCALE, RESIDUAL_SCALE, LOGIT_SCALE],
    interleaves_heads: true,
    more: |config, metadata| add_rotated_dims(config, "granite", metadata),
    ..PLAIN
};

/// Experts and the shared one. Gate and linear part are halves of one tensor.
pub(super) const EXPERTS: &[Row] = &[
    row("block_sparse_moe.router.layer", "ffn_gate_inp", &[Dim::Width, Dim::Experts]),
    row("block_sparse_moe.input_linear", "ffn_gate_exps", &[Dim::Width, Dim::Inner, Dim::Experts])
        .select(Select::FirstHalf),
    row("block_sparse_moe.input_linear", "ffn_up_exps", &[Dim::Width, Dim::Inner, Dim::Experts])
        .select(Select::SecondHalf),
    row("block_sparse_moe.output_linear", "ffn_down_exps", &[Dim::Inner, Dim::Width, Dim::Experts]),
    row("shared_mlp.input_linear", "ffn_gate_shexp", &[Dim::Width, Dim::SharedInner]).select(Select::FirstHalf),
    row("shared_mlp.input_linear", "ffn_up_shexp", &[Dim::Width, Dim::SharedInner]).select(Select::SecondHalf),
    row("shared_mlp.output_linear", "ffn_down_shexp", &[Dim::SharedInner, Dim::Width]),
];

pub(super) const GRANITE_MOE: Decoder = Decoder {
    architectures: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
    name: "granitemoe",
    keys: &[
        VOCABULARY,
        ATTENTION_SCALE,
        EMBEDDING_SCALE,
        RESIDUAL_SCALE,
        LOGIT_SCALE,
        optional_count("expert_shared_feed_forward_length", SHARED_INNER),
    ],
    layer: &[ATTENTION, NORMS, EXPERTS],
    more: |config, metadata| add_rotated_dims(config, "granitemoe", metadata),
    ..GRANITE
};
