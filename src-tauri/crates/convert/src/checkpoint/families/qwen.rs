//! Qwen 2 and 2.5, Qwen 3, and both with experts. A list of modules makes one an embedding model.

use super::super::decoder::{ATTENTION, Decoder, Dim, MLP, NORMS, PLAIN, Row, SHARED_INNER, optional_count, row};
use super::super::error::unsupported;
use super::super::family::Select;

pub(super) const QWEN_2: Decoder = Decoder { architectures: &["Qwen2ForCausalLM"], name: "qwen2", ..PLAIN };

/// Norms over each head of queries and keys.
pub(super) const HEAD_NORMS: &[Row] =
    &[row("self_attn.q_norm", "attn_q_norm", &[Dim::Head]), row("self_attn.k_norm", "attn_k_norm", &[Dim::Head])];

pub(super) const QWEN_3: Decoder = Decoder {
    architectures: &["Qwen3ForCausalLM", "Qwen3Model"],
    name: "qwen3",
    layer: &[ATTENTION, MLP, NORMS, HEAD_NORMS],
    ..PLAIN
};

/// Experts, with a matrix of each, or with the matrices of all in one tensor.
pub(super) const EXPERTS: &[Row] = &[
    row("mlp.gate", "ffn_gate_inp", &[Dim::Width, Dim::Experts]),
    row("mlp.experts.*.gate_proj", "ffn_gate_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts]),
    row("mlp.experts.*.up_proj", "ffn_up_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts]),
    row("mlp.experts.*.down_proj", "ffn_down_exps", &[Dim::ExpertInner, Dim::Width, Dim::Experts]),
    row("mlp.experts.gate_up_proj", "ffn_gate_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts])
        .select(Select::FirstHalf),
    row("mlp.experts.gate_up_proj", "ffn_up_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts])
        .select(Select::SecondHalf),
    row("mlp.experts.down_proj", "ffn_down_exps", &[Dim::ExpertInner, Dim::Width, Dim::Experts]),
];

pub(super) const QWEN_3_MOE: Decoder = Decoder {
    architectures: &["Qwen3MoeForCausalLM"],
    name: "qwen3moe",
    keys: &[optional_count("expert_feed_forward_length", &["moe_intermediate_size"])],
    layer: &[ATTENTION, NORMS, HEAD_NORMS, EXPERTS],
    more: |config, _| match config.value("norm_topk_prob") {
        serde_json::Value::Bool(false) => Err(unsupported("experts of Qwen 3 with norm_topk_prob false")),
        _ => Ok(()),
    },
    ..PLAIN
};

/// Expert of all rows, and the weight of its output.
pub(super) const SHARED_EXPERT: &[Row] = &[
    row("mlp.shared_expert.gate_proj", "ffn_gate_shexp", &[Dim::Width, Dim::SharedInner]),
    row("mlp.shared_expert.up_proj", "ffn_up_shexp", &[Dim::Width, Dim::SharedInner]),
    row("mlp.shared_expert.down_proj", "ffn_down_shexp", &[Dim::SharedInner, Dim::Width]),
    row("mlp.shared_expert_gate", "ffn_gate_inp_shexp", &[Dim::Width, Dim::Any]),
];

pub(super) const QWEN_2_MOE: Decoder = Decoder {
    architectures: &["Qwen2MoeForCausalLM"],
    name: "qwen2moe",
    keys: &[
        optional_count("expert_feed_forward_length", &["moe_intermediate_size"]),
        optional_count("expert_shared_feed_forward_length", SHARED_INNER),
    ],
    layer: &[ATTENTION, NORMS, EXPERTS, SHARED_EXPERT],
    more: |config, _| match config.value("norm_topk_prob") {
        serde_json::Value::Bool(true) => Err(unsupported("qwen2moe with norm_topk_prob true")),
        _ => Ok(()),
    },
    ..PLAIN
};
