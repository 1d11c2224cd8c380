//! Metadata keys that several families have.

use cairn_gguf::{Pooling, Value};

use super::WINDOW;
use crate::spec::ModelSpec;

/// Number of experts, and of experts that a row uses. Enough that the last one has little weight, because rounding
/// selects it when router logits are nearly equal.
const EXPERTS: u32 = 8;
const USED_EXPERTS: u32 = 6;

/// Returns the keys of a window and of smaller heads in every second layer.
pub(super) fn alternating_heads(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    let count = |value: u64| Value::from(u32::try_from(value).expect("a model's counts fit into a u32"));
    let narrow = spec.head_dim / 2;
    let windows: Vec<bool> = (0..spec.layers).map(|layer| layer % 2 == 0).collect();
    let of_layer = |has_window: &bool| if *has_window { spec.kv_heads } else { spec.kv_heads / 2 };
    let kv_heads: Vec<u32> = windows.iter().map(|window| u32::try_from(of_layer(window)).expect("a count")).collect();
    vec![
        ("attention.sliding_window", WINDOW.into()),
        ("attention.sliding_window_pattern", windows.into()),
        ("attention.head_count_kv", kv_heads.into()),
        ("attention.key_length_swa", count(narrow)),
        ("attention.value_length_swa", count(narrow)),
        ("rope.dimension_count_swa", count(narrow)),
        ("rope.freq_base_swa", 10_000f32.into()),
        ("embedding_length_per_layer_input", 0u32.into()),
        ("final_logit_softcapping", 30f32.into()),
    ]
}

/// Returns the keys of experts that are half as wide as an MLP.
pub(super) fn experts(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    let width = u32::try_from(spec.ffn / 2).expect("a model's counts fit into a u32");
    vec![
        ("expert_count", EXPERTS.into()),
        ("expert_used_count", USED_EXPERTS.into()),
        ("expert_feed_forward_length", width.into()),
    ]
}

/// Returns the keys of experts that are as wide as an MLP.
pub(super) fn wide_experts(_: &ModelSpec) -> Vec<(&'static str, Value)> {
    vec![("expert_count", EXPERTS.into()), ("expert_used_count", USED_EXPERTS.into())]
}

/// Returns the keys of experts with sigmoid scores and two shared ones, after an MLP in the first layer.
pub(super) fn sigmoid_experts(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    let mut keys = experts(spec);
    keys.extend([("leading_dense_block_count", 1u32.into()), ("expert_shared_count", 2u32.into())]);
    keys.extend([("expert_gating_func", 2u32.into()), ("expert_weights_scale", 1.5f32.into())]);
    keys
}

/// Returns the key of a hybrid model in which every second layer has attention.
fn alternating_attention(spec: &ModelSpec) -> (&'static str, Value) {
    let kv_heads = i32::try_from(spec.kv_heads).expect("a model's counts fit into an i32");
    let counts: Vec<i32> = (0..spec.layers).map(|layer| if layer % 2 == 0 { 0 } else { kv_heads }).collect();
    ("attention.head_count_kv", counts.into())
}

/// Returns the keys of a hybrid model: every second layer has attention, the others are short convolutions.
pub(super) fn short_convolutions(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    vec![alternating_attention(spec), ("shortconv.l_cache", 3u32.into())]
}

/// Returns the keys of a hybrid model: every second layer has attention, the others state space models of twice the width, as
/// llama.cpp requires for some families.
pub(super) fn state_spaces(spec: &ModelSpec, groups: u32) -> Vec<(&'static str, Value)> {
    let count = |value: u64| Value::from(u32::try_from(value).expect("a model's counts fit into a u32"));
    vec![
        alternating_attention(spec),
        ("ssm.conv_kernel", 4u32.into()),
        ("ssm.state_size", count(spec.head_dim)),
        ("ssm.group_count", groups.into()),
        ("ssm.time_step_rank", count(2 * spec.heads)),
        ("ssm.inner_size", count(2 * spec.width)),
    ]
}

/// Returns the keys of a hybrid model: every second layer has attention, the others linear attention. Published models have it in
/// three of four layers.
pub(super) fn linear_attention(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    let count = |value: u64| Value::from(u32::try_from(value).expect("a model's counts fit into a u32"));
    vec![
        ("full_attention_interval", 2u32.into()),
        ("ssm.conv_kernel", 4u32.into()),
        ("ssm.state_size", count(spec.head_dim)),
        ("ssm.group_count", count(spec.kv_heads)),
        ("ssm.time_step_rank", count(spec.heads)),
        ("ssm.inner_size", count(spec.heads * spec.head_dim)),
        partial_rotation(spec),
    ]
}

/// Returns the keys of linear attention, and of positions with three components.
pub(super) fn linear_attention_with_sections(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    let mut keys = sections(&ModelSpec { head_dim: spec.head_dim / 2, ..spec.clone() });
    keys.extend(linear_attention(spec));
    keys
}

/// Returns the keys of experts and a shared one that each row weighs.
pub(super) fn weighted_experts(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    let mut keys = experts(spec);
    keys.push(("expert_shared_feed_forward_length", 64u32.into()));
    keys
}

/// Returns the keys of layers with one part each: an MLP, attention and a state space model in turn.
pub(super) fn single_parts(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    let count = |value: u64| i32::try_from(value).expect("a model's counts fit into an i32");
    let counts = |value: u64, turn: u64| -> Vec<i32> {
        (0..spec.layers).map(|layer| if layer % 3 == turn { count(value) } else { 0 }).collect()
    };
    vec![
        ("feed_forward_length", counts(spec.ffn, 0).into()),
        ("attention.head_count_kv", counts(spec.kv_heads, 1).into()),
    ]
}

/// Returns the keys of LayerNorm.
pub(super) fn layer_norm(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    vec![("attention.layer_norm_epsilon", spec.norm_epsilon.into())]
}

/// Returns the keys of LayerNorm, and of a rotation of half of each head.
pub(super) fn layer_norm_and_partial_rotation(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    let mut keys = layer_norm(spec);
    keys.push(partial_rotation(spec));
    keys
}

/// Returns the key of a rotation of half of each head.
pub(super) fn partial_rotation(spec: &ModelSpec) -> (&'static str, Value) {
    ("rope.dimension_count", u32::try_from(spec.head_dim / 2).expect("a head's size fits into a u32").into())
}

/// Returns the key of positions with three components; their pairs are about half of a head together.
pub(super) fn sections(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    let pairs = i32::try_from(spec.head_dim / 2).expect("a head's size fits into an i32");
    let (second, third) = ((pairs + 2) / 3, pairs / 3);
    vec![("rope.dimension_sections", vec![pairs - second - third, second, third, 0].into())]
}

/// Returns the keys of Qwen 3 VL: positions with three components, and two layers that get rows of its tower.
pub(super) fn sections_and_deepstack(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    let mut keys = sections(spec);
    keys.push(("n_deepstack_layers", 2u32.into()));
    keys
}

/// Returns the keys of latent attention: as in published models, two thirds of a key have no position. `is_absorbed` if the cache has
/// latents.
pub(super) fn latent_attention(spec: &ModelSpec, is_absorbed: bool) -> Vec<(&'static str, Value)> {
    let count = |value: u64| Value::from(u32::try_from(value).expect("a model's counts fit into a u32"));
    let (plain, rotated, latent) = (spec.head_dim, spec.head_dim / 2, 4 * spec.head_dim);
    let mut keys = vec![
        ("rope.dimension_count", count(rotated)),
        ("attention.kv_lora_rank", count(latent)),
        ("attention.q_lora_rank", count(if is_absorbed { latent } else { 0 })),
    ];
    let lengths = [count(plain + rotated), count(plain)];
    let [key, value] = lengths.clone();
    if is_absorbed {
        keys.extend([("attention.key_length_mla", key), ("attention.value_length_mla", value)]);
        keys.extend([("attention.key_length", count(latent + rotated)), ("attention.value_length", count(latent))]);
    } else {
        keys.extend([("attention.key_length", key), ("attention.value_length", value)]);
    }
    keys.push(("attention.head_count_kv", count(if is_absorbed { 1 } else { spec.heads })));
    keys
}

/// Returns the keys of encoders: LayerNorm, and the mean of rows that attend in both directions.
pub(super) fn encoder(spec: &ModelSpec) -> Vec<(&'static str, Value)> {
    vec![
        ("attention.layer_norm_epsilon", spec.norm_epsilon.into()),
        ("attention.causal", false.into()),
        (Pooling::KEY, Pooling::Mean.into()),
    ]
}
