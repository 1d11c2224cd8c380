//! LFM2: short convolutions and attention; with experts behind the first layers.

use cairn_gguf::Metadata;

use super::super::config::{Config, MAX_WIDTH};
use super::super::decoder::{Decoder, Dim, OUTPUT, PLAIN, Row, flag, number, optional_count, row, whole};
use super::super::error::{ConvertError, unsupported};
use super::sparse::SIGMOIDS;

const TABLES: &[Row] = &[
    row("embed_tokens", "token_embd", &[Dim::Width, Dim::Any]),
    // Its name in GGUF is that of a norm of embeddings.
    row("embedding_norm", "token_embd_norm", &[Dim::Width]),
    row(OUTPUT, "output", &[Dim::Width, Dim::Any]),
];

const MIXERS: &[Row] = &[
    row("operator_norm", "attn_norm", &[Dim::Width]),
    row("ffn_norm", "ffn_norm", &[Dim::Width]),
    row("self_attn.q_proj", "attn_q", &[Dim::Width, Dim::Query]),
    row("self_attn.k_proj", "attn_k", &[Dim::Width, Dim::KeyValue]),
    row("self_attn.v_proj", "attn_v", &[Dim::Width, Dim::KeyValue]),
    row("self_attn.out_proj", "attn_output", &[Dim::Query, Dim::Width]),
    row("self_attn.q_layernorm", "attn_q_norm", &[Dim::Head]),
    row("self_attn.k_layernorm", "attn_k_norm", &[Dim::Head]),
    row("conv.conv", "shortconv.conv", &[Dim::Of(kernel), Dim::Width]).reshaped(),
    row("conv.in_proj", "shortconv.in_proj", &[Dim::Width, Dim::Of(three_widths)]),
    row("conv.out_proj", "shortconv.out_proj", &[Dim::Width, Dim::Width]),
];

const MLP: &[Row] = &[
    row("feed_forward.w1", "ffn_gate", &[Dim::Width, Dim::Inner]),
    row("feed_forward.w2", "ffn_down", &[Dim::Inner, Dim::Width]),
    row("feed_forward.w3", "ffn_up", &[Dim::Width, Dim::Inner]),
];

const EXPERTS: &[Row] = &[
    row("feed_forward.gate", "ffn_gate_inp", &[Dim::Width, Dim::Experts]),
    row("feed_forward.expert", "exp_probs_b", &[Dim::Experts]),
    row("feed_forward.experts.*.w1", "ffn_gate_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts]),
    row("feed_forward.experts.*.w2", "ffn_down_exps", &[Dim::ExpertInner, Dim::Width, Dim::Experts]),
    row("feed_forward.experts.*.w3", "ffn_up_exps", &[Dim::Width, Dim::ExpertInner, Dim::Experts]),
];

pub(super) const LFM_2: Decoder = Decoder {
    architectures: &["Lfm2ForCausalLM", "LFM2ForCausalLM"],
    name: "lfm2",
    keys: &[optional_count("shortconv.l_cache", &["conv_L_cache"]), optional_count("vocab_size", &["vocab_size"])],
    tables: TABLES,
    layer: &[MIXERS, MLP],
    prepare: |config| {
        config.rename(&[("norm_eps", "rms_norm_eps"), ("block_ff_dim", "intermediate_size")]);
        if config.flag("block_auto_adjust_ff_dim")? == Some(true) {
            let inner = adjusted_inner(config)?;
            config.set("intermediate_size", inner);
        }
        Ok(())
    },
    more: |config, metadata| add_layers(config, "lfm2", metadata),
    ..PLAIN
};

pub(super) const LFM_2_MOE: Decoder = Decoder {
    architectures: &["Lfm2MoeForCausalLM"],
    name: "lfm2moe",
    keys: &[
        optional_count("shortconv.l_cache", &["conv_L_cache"]),
        optional_count("vocab_size", &["vocab_size"]),
        optional_count("expert_feed_forward_length", &["moe_intermediate_size"]),
        whole("leading_dense_block_count", &["num_dense_layers"]),
        number("expert_weights_scale", &["routed_scaling_factor"]),
        flag("expert_weights_norm", &["norm_topk_prob"]),
    ],
    layer: &[MIXERS, MLP, EXPERTS],
    prepare: |config| {
        config.rename(&[("norm_eps", "rms_norm_eps")]);
        Ok(())
    },
    more: |config, metadata| {
        if config.flag("norm_topk_prob")? == Some(false) {
            return Err(unsupported("lfm2moe with norm_topk_prob false"));
        }
        metadata.set("lfm2moe.expert_gating_func", SIGMOIDS);
        add_layers(config, "lfm2moe", metadata)
    },
    ..LFM_2
};

/// Adds the number of key/value heads of each layer: 0 marks a convolution.
fn add_layers(config: &Config, architecture: &str, metadata: &mut Metadata) -> Result<(), ConvertError> {
    let Some(kinds) = config.layer_kinds("layer_types")? else {
        return Err(unsupported(format!("{architecture} without layer_types")));
    };
    let heads = config.count("num_key_value_heads", MAX_WIDTH)? as i32;
    let heads: Vec<i32> = kinds.into_iter().map(|kind| if kind == "full_attention" { heads } else { 0 }).collect();
    metadata.set(format!("{architecture}.attention.head_count_kv"), heads);
    Ok(())
}

/// Returns the width inside the MLP that a config describes: two thirds, times a factor, up to a multiple.
fn adjusted_inner(config: &Config) -> Result<u32, ConvertError> {
    let inner = u64::from(config.count("intermediate_size", MAX_WIDTH)?) * 2 / 3;
    let factor = config.optional_number(&["block_ffn_dim_multiplier"])?.map_or(1.0, f64::from);
    let multiple = u64::from(config.optional_count(&["block_multiple_of"], MAX_WIDTH)?.unwrap_or(1));
    let inner = ((inner as f64 * factor).clamp(0.0, f64::from(MAX_WIDTH)) as u64).next_multiple_of(multiple);
    Ok(u32::try_from(inner).unwrap_or(u32::MAX))
}

fn kernel(config: &Config) -> Result<u64, ConvertError> {
    config.count("conv_L_cache", MAX_WIDTH).map(u64::from)
}

fn three_widths(config: &Config) -> Result<u64, ConvertError> {
    Ok(3 * u64::from(config.count("hidden_size", MAX_WIDTH)?))
}
