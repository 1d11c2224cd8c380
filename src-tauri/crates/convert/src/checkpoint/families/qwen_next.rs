//! Qwen 3 Next and Qwen 3.5: three of four layers have linear attention. Checkpoints have the distance of norms from 1,
//! except of those behind linear attention, and the logarithms of rates of decay.
//!
//! Heads of values that share a key are together in checkpoints. In files of Qwen 3.5 they are apart, as llama.cpp
//! expects them.

use std::ops::Range;

use cairn_gguf::Metadata;

use super::super::config::{CONFIG, Config, MAX_LAYERS, MAX_WIDTH};
use super::super::decoder::{
    ATTENTION, Decoder, Dim, MLP, Order, PLAIN, Row, SHARED_INNER, head_dim, optional_count, row,
};
use super::super::error::{ConvertError, invalid, unsupported};
use super::llama::add_rotated_dims;
use super::qwen::{EXPERTS, HEAD_NORMS, SHARED_EXPERT};
use super::sections::add_sections;

/// Sections of published models.
const SECTIONS: [i32; 3] = [11, 11, 10];

/// Queries have a gate of the output behind them.
const GATED: &[Row] = &[row("self_attn.q_proj", "attn_q", &[Dim::Width, Dim::Of(gated_queries)])];

const NORMS: &[Row] = &[
    row("input_layernorm", "attn_norm", &[Dim::Width]),
    row("post_attention_layernorm", "post_attention_norm", &[Dim::Width]),
];

/// Linear attention of both generations.
const LINEAR: &[Row] = &[row("linear_attn.norm", "ssm_norm", &[Dim::Of(value_dim)]).unshifted()];

const NEXT: &[Row] = &[
    row("linear_attn.in_proj_qkvz", "attn_qkv", &[Dim::Width, Dim::Of(mixed)]).order(next_mixed),
    row("linear_attn.in_proj_qkvz", "attn_gate", &[Dim::Width, Dim::Of(values)]).order(next_gates),
    row("linear_attn.in_proj_ba", "ssm_ba", &[Dim::Width, Dim::Of(two_factors)]),
    row("linear_attn.conv1d", "ssm_conv1d", &[Dim::Of(kernel), Dim::Of(mixed)]).reshaped(),
    row("linear_attn.A_log", "ssm_a", &[Dim::Of(value_heads)]).bare().logarithm(),
    row("linear_attn.dt", "ssm_dt", &[Dim::Of(value_heads)]),
    row("linear_attn.out_proj", "ssm_out", &[Dim::Of(values), Dim::Width]),
];

const THREE_POINT_FIVE: &[Row] = &[
    row("linear_attn.in_proj_qkv", "attn_qkv", &[Dim::Width, Dim::Of(mixed)]).order(tiled_mixed),
    row("linear_attn.in_proj_z", "attn_gate", &[Dim::Width, Dim::Of(values)]).order(tiled_values),
    row("linear_attn.in_proj_b", "ssm_beta", &[Dim::Width, Dim::Of(value_heads)]).order(tiled_heads),
    row("linear_attn.in_proj_a", "ssm_alpha", &[Dim::Width, Dim::Of(value_heads)]).order(tiled_heads),
    row("linear_attn.conv1d", "ssm_conv1d", &[Dim::Of(kernel), Dim::Of(mixed)]).reshaped().order(tiled_mixed),
    row("linear_attn.A_log", "ssm_a", &[Dim::Of(value_heads)]).bare().logarithm().order(tiled_heads),
    row("linear_attn.dt", "ssm_dt", &[Dim::Of(value_heads)]).order(tiled_heads),
    row("linear_attn.out_proj", "ssm_out", &[Dim::Of(values), Dim::Width]).order(tiled_columns),
];

pub(super) const QWEN_3_NEXT: Decoder = Decoder {
    architectures: &["Qwen3NextForCausalLM"],
    name: "qwen3next",
    keys: &[
        optional_count("expert_feed_forward_length", &["moe_intermediate_size"]),
        optional_count("expert_shared_feed_forward_length", SHARED_INNER),
    ],
    layer: &[GATED, ATTENTION, NORMS, HEAD_NORMS, LINEAR, NEXT, EXPERTS, SHARED_EXPERT],
    norm_shift: 1.0,
    prepare,
    more: |config, metadata| add_keys(config, "qwen3next", metadata),
    ..PLAIN
};

pub(super) const QWEN_3_5: Decoder = Decoder {
    architectures: &["Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"],
    name: "qwen35",
    keys: &[],
    layer: &[GATED, ATTENTION, NORMS, HEAD_NORMS, LINEAR, THREE_POINT_FIVE, MLP],
    more: |config, metadata| {
        add_sections(config, "qwen35", Some(SECTIONS), metadata)?;
        add_keys(config, "qwen35", metadata)
    },
    ..QWEN_3_NEXT
};

pub(super) const QWEN_3_5_MOE: Decoder = Decoder {
    architectures: &["Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"],
    name: "qwen35moe",
    layer: &[GATED, ATTENTION, NORMS, HEAD_NORMS, LINEAR, THREE_POINT_FIVE, EXPERTS, SHARED_EXPERT],
    more: |config, metadata| {
        add_sections(config, "qwen35moe", Some(SECTIONS), metadata)?;
        add_keys(config, "qwen35moe", metadata)
    },
    ..QWEN_3_NEXT
};

fn prepare(config: &mut Config) -> Result<(), ConvertError> {
    config.set_default("partial_rotary_factor", 0.25);
    // Models with experts in every layer need no width of MLPs.
    if let Some(inner) = config.optional_count(&["moe_intermediate_size"], MAX_WIDTH)? {
        config.set_default("intermediate_size", inner);
    }
    Ok(())
}

fn add_keys(config: &Config, architecture: &str, metadata: &mut Metadata) -> Result<(), ConvertError> {
    let has_mlps = config.value("mlp_only_layers").as_array().is_some_and(|layers| !layers.is_empty())
        || config.optional_count(&["decoder_sparse_step"], MAX_LAYERS)?.is_some_and(|step| step > 1);
    if has_mlps || config.flag("norm_topk_prob")? == Some(false) {
        let what = format!("{architecture} with MLPs beside experts, or norm_topk_prob false");
        return Err(unsupported(what));
    }
    let mut set = |key: &str, value: u64| {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        metadata.set(format!("{architecture}.{key}"), value);
    };
    set("ssm.conv_kernel", kernel(config)?);
    set("ssm.state_size", key_dim(config)?);
    set("ssm.group_count", key_heads(config)?);
    set("ssm.time_step_rank", value_heads(config)?);
    set("ssm.inner_size", values(config)?);
    set("full_attention_interval", interval(config)?.into());
    add_rotated_dims(config, architecture, metadata)
}

/// Returns the number of layers of which the last has attention.
fn interval(config: &Config) -> Result<u32, ConvertError> {
    let declared = config.optional_count(&["full_attention_interval"], MAX_LAYERS)?;
    let Some(kinds) = config.layer_kinds("layer_types")? else { return Ok(declared.unwrap_or(4)) };
    let found = kinds.iter().position(|kind| *kind == "full_attention").map(|first| first + 1);
    let interval = declared.map_or(found, |interval| Some(interval as usize));
    let fits = |interval: &usize| {
        let expected = |layer: usize| (layer + 1).is_multiple_of(*interval);
        kinds.iter().enumerate().all(|(layer, kind)| (*kind == "full_attention") == expected(layer))
    };
    let interval = interval.filter(fits).and_then(|interval| u32::try_from(interval).ok());
    interval.ok_or_else(|| unsupported("layer_types without attention in every n-th layer"))
}

/// Limits of linear attention, as in the engine.
const MAX_HEADS: u32 = 4096;
const MAX_HEAD_DIM: u32 = 1024;

fn size(config: &Config, key: &str, max: u32) -> Result<u64, ConvertError> {
    config.count(key, max).map(u64::from)
}

fn kernel(config: &Config) -> Result<u64, ConvertError> {
    size(config, "linear_conv_kernel_dim", MAX_HEAD_DIM)
}

fn key_dim(config: &Config) -> Result<u64, ConvertError> {
    size(config, "linear_key_head_dim", MAX_HEAD_DIM)
}

fn key_heads(config: &Config) -> Result<u64, ConvertError> {
    size(config, "linear_num_key_heads", MAX_HEADS)
}

fn value_dim(config: &Config) -> Result<u64, ConvertError> {
    size(config, "linear_value_head_dim", MAX_HEAD_DIM)
}

fn value_heads(config: &Config) -> Result<u64, ConvertError> {
    size(config, "linear_num_value_heads", MAX_HEADS)
}

/// Elements of the values of all heads.
fn values(config: &Config) -> Result<u64, ConvertError> {
    Ok(value_heads(config)? * value_dim(config)?)
}

/// Elements of the keys, or the queries, of all heads.
fn keys(config: &Config) -> Result<u64, ConvertError> {
    Ok(key_heads(config)? * key_dim(config)?)
}

/// Elements of queries, keys and values.
fn mixed(config: &Config) -> Result<u64, ConvertError> {
    Ok(2 * keys(config)? + values(config)?)
}

fn two_factors(config: &Config) -> Result<u64, ConvertError> {
    Ok(2 * value_heads(config)?)
}

fn gated_queries(config: &Config) -> Result<u64, ConvertError> {
    Ok(2 * size(config, "num_attention_heads", MAX_WIDTH)? * head_dim(config)?)
}

/// Returns the number of heads of values that share a key.
fn shared(config: &Config) -> Result<u64, ConvertError> {
    let (heads, groups) = (value_heads(config)?, key_heads(config)?);
    match heads.is_multiple_of(groups) {
        true => Ok(heads / groups),
        false => Err(invalid(CONFIG, format!("{groups} heads of keys do not divide {heads} heads of values"))),
    }
}

/// Ranges of some rows of each head of keys, where the rows of a head are its query, its key, its values and their
/// gates.
fn next_rows(config: &Config, part: usize) -> Result<Vec<Range<u64>>, ConvertError> {
    let (key, value) = (key_dim(config)?, shared(config)? * value_dim(config)?);
    let ends = [0, key, 2 * key, 2 * key + value, 2 * (key + value)];
    let rows = |head: u64| head * ends[4] + ends[part]..head * ends[4] + ends[part + 1];
    Ok((0..key_heads(config)?).map(rows).collect())
}

fn next_mixed(config: &Config) -> Result<Order, ConvertError> {
    let parts = [next_rows(config, 0)?, next_rows(config, 1)?, next_rows(config, 2)?];
    Ok(Order::rows(parts.into_iter().flatten()))
}

fn next_gates(config: &Config) -> Result<Order, ConvertError> {
    Ok(Order::rows(next_rows(config, 3)?))
}

/// Ranges of the heads of values of `dim` rows from `first` on: the first heads of all keys, then the second ones, and
/// so on.
fn tiled(config: &Config, first: u64, dim: u64) -> Result<Vec<Range<u64>>, ConvertError> {
    let (groups, shared) = (key_heads(config)?, shared(config)?);
    let row = move |nth: u64, group: u64| first + (group * shared + nth) * dim;
    let heads = (0..shared).flat_map(move |nth| (0..groups).map(move |group| row(nth, group)..row(nth, group) + dim));
    Ok(heads.collect())
}

fn tiled_mixed(config: &Config) -> Result<Order, ConvertError> {
    let keys = 2 * keys(config)?;
    Ok(Order::rows(std::iter::once(0..keys).chain(tiled(config, keys, value_dim(config)?)?)))
}

fn tiled_values(config: &Config) -> Result<Order, ConvertError> {
    Ok(Order::rows(tiled(config, 0, value_dim(config)?)?))
}

fn tiled_heads(config: &Config) -> Result<Order, ConvertError> {
    Ok(Order::rows(tiled(config, 0, 1)?))
}

fn tiled_columns(config: &Config) -> Result<Order, ConvertError> {
    Ok(Order { columns: Some(tiled(config, 0, value_dim(config)?)?), ..Order::default() })
}
