//! DeepSeek V2 and V3, Kimi K2 and GLM 4.7 Flash: attention over latents. The matrix from latents to keys and values of
//! all heads is divided into those of keys, which are transposed, and those of values.
//!
//! Groups of experts are left out of models with softmax scores, as in llama.cpp: they choose groups in another way.

use cairn_gguf::Metadata;

use super::super::config::{Config, MAX_LAYERS, MAX_WIDTH};
use super::super::decoder::{Decoder, Dim, MLP, NORMS, Order, PLAIN, Row, row};
use super::super::error::{ConvertError, unsupported};
use super::qwen::EXPERTS;
use super::sparse::{KEYS, ROUTER_BIAS, SHARED_EXPERTS, SIGMOIDS, SOFTMAX};

const NAME: &str = "deepseek2";

const ATTENTION: &[Row] = &[
    row("self_attn.q_proj", "attn_q", &[Dim::Width, Dim::Of(queries)]),
    row("self_attn.q_a_proj", "attn_q_a", &[Dim::Width, Dim::Of(query_latent)]),
    row("self_attn.q_a_layernorm", "attn_q_a_norm", &[Dim::Of(query_latent)]),
    row("self_attn.q_b_proj", "attn_q_b", &[Dim::Of(query_latent), Dim::Of(queries)]),
    row("self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", &[Dim::Width, Dim::Of(latent_and_rotated)]),
    row("self_attn.kv_a_layernorm", "attn_kv_a_norm", &[Dim::Of(latent)]),
    row("self_attn.kv_b_proj", "attn_k_b", &[Dim::Of(plain), Dim::Of(latent), Dim::Heads]).order(keys).transposed(),
    row("self_attn.kv_b_proj", "attn_v_b", &[Dim::Of(latent), Dim::Of(value), Dim::Heads]).order(values),
    row("self_attn.o_proj", "attn_output", &[Dim::Of(all_values), Dim::Width]),
];

pub(super) const DEEPSEEK_2: Decoder = Decoder {
    architectures: &[
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "KimiVLForConditionalGeneration",
        "KimiK25ForConditionalGeneration",
    ],
    name: NAME,
    keys: KEYS,
    layer: &[ATTENTION, MLP, NORMS, EXPERTS, ROUTER_BIAS, SHARED_EXPERTS],
    has_predicting_layers: true,
    prepare,
    more: add_keys,
    ..PLAIN
};

fn prepare(config: &mut Config) -> Result<(), ConvertError> {
    let key = queries(config)? / heads(config)?;
    // The width of the model need not be a multiple of the heads.
    config.set("head_dim", key);
    config.set_default("rms_norm_eps", 1e-6);
    config.set_default("n_shared_experts", 0);
    if config.optional_count(&["n_routed_experts"], MAX_WIDTH)?.is_none() {
        return Err(unsupported(format!("{NAME} without experts")));
    }
    config.set_default("first_k_dense_replace", 0);
    Ok(())
}

fn add_keys(config: &Config, metadata: &mut Metadata) -> Result<(), ConvertError> {
    let is_interleaved = config.optional_count(&["moe_layer_freq"], MAX_LAYERS)?.is_some_and(|step| step > 1);
    if is_interleaved {
        return Err(unsupported(format!("{NAME} with MLPs between layers with experts")));
    }
    let count = |key: &str| config.count(key, MAX_WIDTH);
    let (rotated, latent) = (count("qk_rope_head_dim")?, count("kv_lora_rank")?);
    let mut set = |key: &str, value: u32| drop(metadata.set(format!("{NAME}.{key}"), value));
    // One row of the cache has the latent and the elements with a position.
    set("attention.head_count_kv", 1);
    set("attention.key_length", latent.saturating_add(rotated));
    set("attention.value_length", latent);
    set("attention.key_length_mla", count("qk_nope_head_dim")?.saturating_add(rotated));
    set("attention.value_length_mla", count("v_head_dim")?);
    set("attention.kv_lora_rank", latent);
    set("rope.dimension_count", rotated);
    if let Some(rank) = config.optional_count(&["q_lora_rank"], MAX_WIDTH)? {
        set("attention.q_lora_rank", rank);
    }
    let scores = match config.optional_text("scoring_func")? {
        Some("sigmoid") => SIGMOIDS,
        None if config.optional_text("topk_method")?.is_none_or(|method| method == "noaux_tc") => SIGMOIDS,
        Some("softmax") | None => SOFTMAX,
        Some(other) => return Err(unsupported(format!("{NAME} with the scores {other:?}"))),
    };
    set("expert_gating_func", scores);
    let groups = config.optional_count(&["n_group"], MAX_WIDTH)?.filter(|&groups| groups > 1 && scores == SIGMOIDS);
    if let Some(groups) = groups {
        set("expert_group_count", groups);
        set("expert_group_used_count", count("topk_group")?);
    }
    if let Some(multiplier) = config.rotation_number("mscale_all_dim")? {
        // Files have a tenth of it.
        metadata.set(format!("{NAME}.rope.scaling.yarn_log_multiplier"), (0.1 * multiplier) as f32);
    }
    if let Some(growth) = config.rotation_number("llama_4_scaling_beta")? {
        metadata.set(format!("{NAME}.attention.temperature_scale"), growth as f32);
        let length = config.rotation("original_max_position_embeddings").as_u64();
        if let Some(length) = length.and_then(|length| u32::try_from(length).ok()) {
            metadata.set(format!("{NAME}.attention.temperature_length"), length);
        }
    }
    Ok(())
}

fn size(config: &Config, key: &str) -> Result<u64, ConvertError> {
    config.count(key, MAX_WIDTH).map(u64::from)
}

fn heads(config: &Config) -> Result<u64, ConvertError> {
    size(config, "num_attention_heads")
}

fn plain(config: &Config) -> Result<u64, ConvertError> {
    size(config, "qk_nope_head_dim")
}

fn value(config: &Config) -> Result<u64, ConvertError> {
    size(config, "v_head_dim")
}

fn latent(config: &Config) -> Result<u64, ConvertError> {
    size(config, "kv_lora_rank")
}

fn latent_and_rotated(config: &Config) -> Result<u64, ConvertError> {
    Ok(latent(config)? + size(config, "qk_rope_head_dim")?)
}

fn query_latent(config: &Config) -> Result<u64, ConvertError> {
    size(config, "q_lora_rank")
}

fn queries(config: &Config) -> Result<u64, ConvertError> {
    Ok(heads(config)? * (plain(config)? + size(config, "qk_rope_head_dim")?))
}

fn all_values(config: &Config) -> Result<u64, ConvertError> {
    Ok(heads(config)? * value(config)?)
}

/// The matrices of the keys of all heads.
fn keys(config: &Config) -> Result<Order, ConvertError> {
    Ok(Order { split: heads(config)?, ..Order::rows(std::iter::once(0..plain(config)?)) })
}

/// The matrices of the values of all heads.
fn values(config: &Config) -> Result<Order, ConvertError> {
    let first = plain(config)?;
    Ok(Order { split: heads(config)?, ..Order::rows(std::iter::once(first..first + value(config)?)) })
}
