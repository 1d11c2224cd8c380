//! GLM 4: norms before and after attention and MLP, a fused MLP, and a rotation of half of each head; and GLM 4.5 to
//! 4.7: experts behind the first layers, and layers that predict further tokens, which are left out.

use super::super::config::Config;
use super::super::decoder::{ATTENTION, Decoder, Dim, MLP, PLAIN, Row, row};
use super::super::error::ConvertError;
use super::llama::add_rotated_dims;
use super::qwen::EXPERTS;
use super::sparse::{KEYS, ROUTER_BIAS, SHARED_EXPERTS, SIGMOIDS};

const LAYER: &[Row] = &[
    row("input_layernorm", "attn_norm", &[Dim::Width]),
    row("post_self_attn_layernorm", "post_attention_norm", &[Dim::Width]),
    row("post_attention_layernorm", "ffn_norm", &[Dim::Width]),
    row("post_mlp_layernorm", "post_ffw_norm", &[Dim::Width]),
    row("mlp.gate_up_proj", "ffn_up", &[Dim::Width, Dim::TwoInner]),
    row("mlp.down_proj", "ffn_down", &[Dim::Inner, Dim::Width]),
];

pub(super) const GLM_4: Decoder = Decoder {
    architectures: &["Glm4ForCausalLM"],
    name: "glm4",
    layer: &[ATTENTION, LAYER],
    prepare: rotate_half,
    more: |config, metadata| add_rotated_dims(config, "glm4", metadata),
    ..PLAIN
};

/// Sets the default of the rotated part of a head.
fn rotate_half(config: &mut Config) -> Result<(), ConvertError> {
    config.set_default("partial_rotary_factor", 0.5);
    Ok(())
}

const NORMS: &[Row] = &[
    row("input_layernorm", "attn_norm", &[Dim::Width]),
    row("post_attention_layernorm", "post_attention_norm", &[Dim::Width]),
    row("self_attn.q_norm", "attn_q_norm", &[Dim::Head]),
    row("self_attn.k_norm", "attn_k_norm", &[Dim::Head]),
];

pub(super) const GLM_4_MOE: Decoder = Decoder {
    architectures: &["Glm4MoeForCausalLM"],
    name: "glm4moe",
    keys: KEYS,
    layer: &[ATTENTION, MLP, NORMS, EXPERTS, ROUTER_BIAS, SHARED_EXPERTS],
    has_predicting_layers: true,
    prepare: rotate_half,
    more: |config, metadata| {
        metadata.set("glm4moe.expert_gating_func", SIGMOIDS);
        add_rotated_dims(config, "glm4moe", metadata)
    },
    ..PLAIN
};
