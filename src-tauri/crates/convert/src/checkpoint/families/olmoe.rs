//! OLMoE: experts as wide as `intermediate_size`, and norms over all heads of queries and keys together.

use serde_json::Value;

use super::super::decoder::{ATTENTION, Decoder, Dim, NORMS, PLAIN, Row, row};
use super::super::error::unsupported;

const HEAD_NORMS: &[Row] =
    &[row("self_attn.q_norm", "attn_q_norm", &[Dim::Query]), row("self_attn.k_norm", "attn_k_norm", &[Dim::KeyValue])];

const EXPERTS: &[Row] = &[
    row("mlp.gate", "ffn_gate_inp", &[Dim::Width, Dim::Experts]),
    row("mlp.experts.*.gate_proj", "ffn_gate_exps", &[Dim::Width, Dim::Inner, Dim::Experts]),
    row("mlp.experts.*.up_proj", "ffn_up_exps", &[Dim::Width, Dim::Inner, Dim::Experts]),
    row("mlp.experts.*.down_proj", "ffn_down_exps", &[Dim::Inner, Dim::Width, Dim::Experts]),
];

pub(super) const OLMOE: Decoder = Decoder {
    architectures: &["OlmoeForCausalLM"],
    name: "olmoe",
    layer: &[ATTENTION, NORMS, HEAD_NORMS, EXPERTS],
    more: |config, _| {
        if config.value("norm_topk_prob") == &Value::Bool(true) {
            return Err(unsupported("olmoe with norm_topk_prob true"));
        }
        if !config.value("clip_qkv").is_null() {
            return Err(unsupported("olmoe with clip_qkv"));
        }
        Ok(())
    },
    ..PLAIN
};
