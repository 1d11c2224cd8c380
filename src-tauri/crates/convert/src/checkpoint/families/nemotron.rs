//! Nemotron H and Nemotron 3: each layer is an MLP of squared ReLU or experts, attention without positions, or a state
//! space model.

use cairn_gguf::Metadata;

use super::super::config::{CONFIG, Config, MAX_LAYERS, MAX_WIDTH};
use super::super::decoder::{
    Decoder, Dim, Key, OUTPUT, PLAIN, Row, flag, head_dim, number, optional_count, row, whole,
};
use super::super::error::{ConvertError, invalid};
use super::mamba::{self, MIXER};
use super::sparse::SIGMOIDS;

const ARCHITECTURES: &[&str] = &["NemotronHForCausalLM"];
/// Letters of layers in `hybrid_override_pattern`.
const ATTENTION_LAYER: u8 = b'*';
const STATE_SPACE_LAYER: u8 = b'M';

const TABLES: &[Row] = &[
    row("embeddings", "token_embd", &[Dim::Width, Dim::Any]),
    row("norm_f", "output_norm", &[Dim::Width]),
    row(OUTPUT, "output", &[Dim::Width, Dim::Any]),
];

const LAYER: &[Row] = &[
    row("norm", "attn_norm", &[Dim::Width]),
    row("mixer.q_proj", "attn_q", &[Dim::Width, Dim::Query]),
    row("mixer.k_proj", "attn_k", &[Dim::Width, Dim::KeyValue]),
    row("mixer.v_proj", "attn_v", &[Dim::Width, Dim::KeyValue]),
    row("mixer.o_proj", "attn_output", &[Dim::Query, Dim::Width]),
    row("mixer.up_proj", "ffn_up", &[Dim::Width, Dim::Inner]),
    row("mixer.down_proj", "ffn_down", &[Dim::Inner, Dim::Width]),
];

const EXPERTS: &[Row] = &[
    row("mixer.gate", "ffn_gate_inp", &[Dim::Width, Dim::Experts]),
    row("mixer.gate.e_score_correction", "exp_probs_b", &[Dim::Experts]),
    row("mixer.fc1_latent_proj", "ffn_latent_down", &[Dim::Width, Dim::Of(expert_width)]),
    row("mixer.fc2_latent_proj", "ffn_latent_up", &[Dim::Of(expert_width), Dim::Width]),
    row("mixer.experts.*.up_proj", "ffn_up_exps", &[Dim::Of(expert_width), Dim::ExpertInner, Dim::Experts]),
    row("mixer.experts.*.down_proj", "ffn_down_exps", &[Dim::ExpertInner, Dim::Of(expert_width), Dim::Experts]),
    row("mixer.shared_experts.up_proj", "ffn_up_shexp", &[Dim::Width, Dim::SharedInner]),
    row("mixer.shared_experts.down_proj", "ffn_down_shexp", &[Dim::SharedInner, Dim::Width]),
];

pub(super) const NEMOTRON_H: Decoder = Decoder {
    architectures: ARCHITECTURES,
    name: "nemotron_h",
    tables: TABLES,
    layer: &[LAYER, MIXER],
    activations: &["relu2"],
    applies: |config| !has_experts(config),
    prepare,
    more: |config, metadata| add_keys(config, "nemotron_h", "intermediate_size", metadata),
    ..PLAIN
};

pub(super) const NEMOTRON_H_MOE: Decoder = Decoder {
    name: "nemotron_h_moe",
    keys: MOE_KEYS,
    layer: &[LAYER, MIXER, EXPERTS],
    applies: has_experts,
    more: |config, metadata| {
        metadata.set("nemotron_h_moe.expert_gating_func", SIGMOIDS);
        add_keys(config, "nemotron_h_moe", "moe_intermediate_size", metadata)
    },
    ..NEMOTRON_H
};

const MOE_KEYS: &[Key] = &[
    optional_count("expert_feed_forward_length", &["moe_intermediate_size"]),
    optional_count("expert_shared_feed_forward_length", &["moe_shared_expert_intermediate_size"]),
    whole("expert_shared_count", &["n_shared_experts"]),
    flag("expert_weights_norm", &["norm_topk_prob"]),
    number("expert_weights_scale", &["routed_scaling_factor"]),
    whole("expert_group_count", &["n_group"]),
    whole("expert_group_used_count", &["topk_group"]),
    whole("moe_latent_size", &["moe_latent_size"]),
];

fn has_experts(config: &Config) -> bool {
    config.value("n_routed_experts").as_u64().is_some_and(|count| count > 0)
}

/// Width of the input of an expert.
fn expert_width(config: &Config) -> Result<u64, ConvertError> {
    let latent = config.whole("moe_latent_size", MAX_WIDTH)?.filter(|&width| width > 0);
    latent.map_or_else(|| config.count("hidden_size", MAX_WIDTH), Ok).map(u64::from)
}

fn prepare(config: &mut Config) -> Result<(), ConvertError> {
    config.rename(mamba::NAMES);
    config.rename(&[
        ("norm_eps", "layer_norm_epsilon"),
        ("layer_norm_epsilon", "rms_norm_eps"),
        ("attention_head_dim", "head_dim"),
        ("moe_shared_expert_intermediate_size", "shared_intermediate_size"),
        ("moe_intermediate_size", "intermediate_size"),
    ]);
    Ok(())
}

/// Returns the letters of all layers.
fn letters(config: &Config) -> Result<Vec<u8>, ConvertError> {
    const KEY: &str = "hybrid_override_pattern";
    let layers = config.count("num_hidden_layers", MAX_LAYERS)? as usize;
    let letters = match config.optional_text(KEY)? {
        Some(pattern) => pattern.as_bytes().to_vec(),
        None => {
            let kinds = config.layer_kinds("layers_block_type")?.unwrap_or_default();
            let letter = |kind: &str| match kind {
                "attention" | "full_attention" => ATTENTION_LAYER,
                "mamba" | "linear_attention" => STATE_SPACE_LAYER,
                _ => b'-',
            };
            kinds.into_iter().map(letter).collect()
        }
    };
    let is_letter = |letter: &u8| [ATTENTION_LAYER, STATE_SPACE_LAYER, b'-', b'E'].contains(letter);
    if letters.len() != layers || !letters.iter().all(is_letter) {
        return Err(invalid(CONFIG, format!("{KEY} does not have one of M, *, - and E for each of {layers} layers")));
    }
    Ok(letters)
}

/// Adds the sizes and the kind of each layer.
fn add_keys(config: &Config, architecture: &str, inner: &str, metadata: &mut Metadata) -> Result<(), ConvertError> {
    let letters = letters(config)?;
    let count = |key: &str| config.count(key, MAX_WIDTH).map(|count| count as i32);
    let (heads, inner) = (count("num_key_value_heads")?, count(inner)?);
    let of = |is_of: fn(u8) -> bool, value: i32| -> Vec<i32> {
        letters.iter().map(|&letter| if is_of(letter) { value } else { 0 }).collect()
    };
    let is_attention = |letter: u8| letter == ATTENTION_LAYER;
    metadata.set(format!("{architecture}.attention.head_count_kv"), of(is_attention, heads));
    let is_mlp = |letter: u8| letter != ATTENTION_LAYER && letter != STATE_SPACE_LAYER;
    metadata.set(format!("{architecture}.feed_forward_length"), of(is_mlp, inner));
    let head = u32::try_from(head_dim(config)?).unwrap_or(u32::MAX);
    for part in ["key", "value"] {
        metadata.set(format!("{architecture}.attention.{part}_length"), head);
    }
    mamba::add_keys(config, architecture, metadata)
}
