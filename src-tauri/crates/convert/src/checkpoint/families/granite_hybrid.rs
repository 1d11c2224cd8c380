//! Granite 4: state space models in most layers and attention in the others, with MLPs or with experts and a shared
//! one.

use cairn_gguf::Metadata;

use super::super::config::{Config, MAX_WIDTH};
use super::super::decoder::{ATTENTION, Decoder, Dim, NORMS, Row, row};
use super::super::error::{ConvertError, unsupported};
use super::super::family::Select;
use super::granite::{EXPERTS, GRANITE, GRANITE_MOE};
use super::llama::add_rotated_dims;
use super::mamba::{self, MAMBA};

const NAME: &str = "granitehybrid";
const ARCHITECTURES: &[&str] = &["GraniteMoeHybridForCausalLM"];

/// The MLP of models without experts has the names of a shared expert.
const MLP: &[Row] = &[
    row("shared_mlp.input_linear", "ffn_gate", &[Dim::Width, Dim::SharedInner]).select(Select::FirstHalf),
    row("shared_mlp.input_linear", "ffn_up", &[Dim::Width, Dim::SharedInner]).select(Select::SecondHalf),
    row("shared_mlp.output_linear", "ffn_down", &[Dim::SharedInner, Dim::Width]),
];

pub(super) const GRANITE_HYBRID: Decoder = Decoder {
    architectures: ARCHITECTURES,
    name: NAME,
    layer: &[ATTENTION, NORMS, MAMBA, MLP],
    applies: |config| !has_experts(config),
    prepare: |config| {
        // Configs have the number 0 of experts.
        config.set("num_local_experts", serde_json::Value::Null);
        config.set("num_experts_per_tok", serde_json::Value::Null);
        let inner = config.count("shared_intermediate_size", MAX_WIDTH)?;
        config.set("intermediate_size", inner);
        Ok(())
    },
    more: add_keys,
    ..GRANITE
};

pub(super) const GRANITE_HYBRID_MOE: Decoder = Decoder {
    architectures: ARCHITECTURES,
    name: NAME,
    layer: &[ATTENTION, NORMS, MAMBA, EXPERTS],
    applies: has_experts,
    more: add_keys,
    ..GRANITE_MOE
};

fn has_experts(config: &Config) -> bool {
    config.value("num_local_experts").as_u64().is_some_and(|count| count > 0)
}

fn add_keys(config: &Config, metadata: &mut Metadata) -> Result<(), ConvertError> {
    let Some(kinds) = config.layer_kinds("layer_types")? else {
        return Err(unsupported(format!("{NAME} without layer_types")));
    };
    if !kinds.contains(&"mamba") || !kinds.contains(&"attention") {
        return Err(unsupported(format!("{NAME} without both attention and state space models")));
    }
    if config.optional_text("position_embedding_type")?.is_some_and(|kind| kind == "rope") {
        return Err(unsupported(format!("{NAME} with rotary positions")));
    }
    let heads = config.count("num_key_value_heads", MAX_WIDTH)? as i32;
    let heads: Vec<i32> = kinds.into_iter().map(|kind| if kind == "attention" { heads } else { 0 }).collect();
    metadata.set(format!("{NAME}.attention.head_count_kv"), heads);
    metadata.set(format!("{NAME}.rope.scaling.finetuned"), false);
    mamba::add_keys(config, NAME, metadata)?;
    add_rotated_dims(config, NAME, metadata)
}
