//! Gemma 4, text: heads of layers that see the whole context are wider, and a part of their pairs turns. Small models
//! have inputs of single layers, and their last layers share keys and values and may have wider MLPs. Weights of norms
//! are stored as they are.

use cairn_gguf::Metadata;
use serde_json::Value;

use super::super::config::{Config, MAX_LAYERS, MAX_WIDTH, excerpt};
use super::super::decoder::{Decoder, Dim, Key, OUTPUT, PLAIN, Row, number, optional_count, row, whole};
use super::super::error::{ConvertError, unsupported};

const NAME: &str = "gemma4";
/// Name in `layer_types` of layers with a window.
const WINDOW: &str = "sliding_attention";
/// Where the size of heads of layers with a window is, beside that of the others.
const WINDOW_HEAD: &str = "swa_head_dim";

const KEYS: &[Key] = &[
    optional_count("attention.sliding_window", &["sliding_window"]),
    number("final_logit_softcapping", &["final_logit_softcapping"]),
    whole("attention.shared_kv_layers", &["num_kv_shared_layers"]),
    whole("embedding_length_per_layer_input", &["hidden_size_per_layer_input"]),
    optional_count("expert_feed_forward_length", &["moe_intermediate_size", "expert_intermediate_size"]),
];

const TABLES: &[Row] = &[
    row("embed_tokens", "token_embd", &[Dim::Width, Dim::Any]),
    row("embed_tokens_per_layer", "per_layer_token_embd", &[Dim::Of(all_inputs), Dim::Any]),
    row("per_layer_model_projection", "per_layer_model_proj", &[Dim::Width, Dim::Of(all_inputs)]),
    row("per_layer_projection_norm", "per_layer_proj_norm", &[Dim::Of(layer_input)]),
    row("norm", "output_norm", &[Dim::Width]),
    row(OUTPUT, "output", &[Dim::Width, Dim::Any]),
];

/// The sizes of heads and MLPs depend on the layer.
const LAYER: &[Row] = &[
    row("self_attn.q_proj", "attn_q", &[Dim::Width, Dim::Any]),
    row("self_attn.k_proj", "attn_k", &[Dim::Width, Dim::Any]),
    row("self_attn.v_proj", "attn_v", &[Dim::Width, Dim::Any]),
    row("self_attn.o_proj", "attn_output", &[Dim::Any, Dim::Width]),
    row("self_attn.q_norm", "attn_q_norm", &[Dim::Any]),
    row("self_attn.k_norm", "attn_k_norm", &[Dim::Any]),
    row("input_layernorm", "attn_norm", &[Dim::Width]),
    row("post_attention_layernorm", "post_attention_norm", &[Dim::Width]),
    row("pre_feedforward_layernorm", "ffn_norm", &[Dim::Width]),
    row("post_feedforward_layernorm", "post_ffw_norm", &[Dim::Width]),
    row("mlp.gate_proj", "ffn_gate", &[Dim::Width, Dim::Any]),
    row("mlp.up_proj", "ffn_up", &[Dim::Width, Dim::Any]),
    row("mlp.down_proj", "ffn_down", &[Dim::Any, Dim::Width]),
    row("per_layer_input_gate", "inp_gate", &[Dim::Width, Dim::Of(layer_input)]),
    row("per_layer_projection", "proj", &[Dim::Of(layer_input), Dim::Width]),
    row("post_per_layer_input_norm", "post_norm", &[Dim::Width]),
    row("layer_scalar", "layer_output_scale", &[Dim::Of(|_| Ok(1))]),
];

/// Experts beside the MLPs, with norms of their own.
const EXPERTS: &[Row] = &[
    row("post_feedforward_layernorm_1", "post_ffw_norm_1", &[Dim::Width]),
    row("pre_feedforward_layernorm_2", "pre_ffw_norm_2", &[Dim::Width]),
    row("post_feedforward_layernorm_2", "post_ffw_norm_2", &[Dim::Width]),
    row("router.proj", "ffn_gate_inp", &[Dim::Width, Dim::Experts]),
    row("router.scale", "ffn_gate_inp.scale", &[Dim::Width]).bare(),
    row("router.per_expert_scale", "ffn_down_exps.scale", &[Dim::Experts]).bare(),
    row("experts.gate_up_proj", "ffn_gate_up_exps", &[Dim::Width, Dim::Of(gates_and_ups), Dim::Experts]),
    row("experts.down_proj", "ffn_down_exps", &[Dim::ExpertInner, Dim::Width, Dim::Experts]),
];

pub(super) const GEMMA_4: Decoder = Decoder {
    architectures: &["Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"],
    name: NAME,
    keys: KEYS,
    tables: TABLES,
    layer: &[LAYER, EXPERTS],
    activations: &["gelu_pytorch_tanh"],
    space_prefix: Some(false),
    prepare: |config| {
        rename_layer_sizes(config)?;
        // Configs have the larger heads in a key of their own.
        let narrow = config.count("head_dim", MAX_WIDTH)?;
        config.set(WINDOW_HEAD, narrow);
        let wide = config.optional_count(&["global_head_dim"], MAX_WIDTH)?.unwrap_or(narrow);
        config.set("head_dim", wide);
        config.rename(&[("top_k_experts", "num_experts_per_tok")]);
        Ok(())
    },
    more: add_keys,
    ..PLAIN
};

/// Gives the sizes of layers that see the whole context the names of older configs. `transformers` 5 writes them for each of these
/// layers.
fn rename_layer_sizes(config: &mut Config) -> Result<(), ConvertError> {
    const KEY: &str = "per_layer_config";
    let layers = match config.value(KEY) {
        Value::Null => return Ok(()),
        Value::Object(layers) => layers.clone(),
        other => return Err(config.refused(KEY, format_args!("is {}, not an object", excerpt(other)))),
    };
    let kinds = config.layer_kinds("layer_types")?.unwrap_or_default();
    let has_full = |(layer, kind): (usize, &&str)| layers.contains_key(&layer.to_string()) == (*kind != WINDOW);
    let mut sizes = layers.values();
    let first = sizes.next();
    let is_regular = layers.len() <= kinds.len() && kinds.iter().enumerate().all(has_full);
    if !is_regular || sizes.any(|other| Some(other) != first) {
        return Err(unsupported(format!("{NAME} with a {KEY} that is not one of all layers without a window")));
    }
    for (key, value) in first.and_then(Value::as_object).into_iter().flatten() {
        match key.as_str() {
            "head_dim" => config.set("global_head_dim", value.clone()),
            "num_key_value_heads" => config.set("num_global_key_value_heads", value.clone()),
            other => return Err(unsupported(format!("{NAME} with {:?} of single layers", cairn_wire::excerpt(other)))),
        }
    }
    Ok(())
}

fn add_keys(config: &Config, metadata: &mut Metadata) -> Result<(), ConvertError> {
    const DIRECTIONS: &str = "use_bidirectional_attention";
    // Tokens of text attend to later ones, too.
    if config.optional_text(DIRECTIONS)? == Some("all") {
        return Err(unsupported(format!("{NAME} with {DIRECTIONS} \"all\"")));
    }
    let cap = format!("{NAME}.final_logit_softcapping");
    if metadata.get(&cap).is_none() {
        // Files without the key have a cap, and configs none.
        metadata.set(cap, 0f32);
    }
    let Some(kinds) = config.layer_kinds("layer_types")? else {
        return Err(unsupported(format!("{NAME} without layer_types")));
    };
    let windows: Vec<bool> = kinds.into_iter().map(|kind| kind == WINDOW).collect();
    let kv_heads = config.count("num_key_value_heads", MAX_WIDTH)?;
    if let Some(global) = config.optional_count(&["num_global_key_value_heads"], MAX_WIDTH)? {
        let heads: Vec<u32> = windows.iter().map(|&window| if window { kv_heads } else { global }).collect();
        metadata.set(format!("{NAME}.attention.head_count_kv"), heads);
    }
    if config.flag("use_double_wide_mlp")? == Some(true) {
        let (inner, layers) = (config.count("intermediate_size", MAX_WIDTH)?, windows.len());
        let shared = config.whole("num_kv_shared_layers", MAX_LAYERS)?.unwrap_or(0) as usize;
        let first = layers.saturating_sub(shared);
        let widths: Vec<u32> = (0..layers).map(|layer| if layer < first { inner } else { 2 * inner }).collect();
        metadata.set(format!("{NAME}.feed_forward_length"), widths);
    }
    metadata.set(format!("{NAME}.attention.sliding_window_pattern"), windows);
    let (wide, narrow) = (config.count("head_dim", MAX_WIDTH)?, config.count(WINDOW_HEAD, MAX_WIDTH)?);
    for part in ["key", "value"] {
        metadata.set(format!("{NAME}.attention.{part}_length_swa"), narrow);
    }
    metadata.set(format!("{NAME}.rope.dimension_count"), wide);
    metadata.set(format!("{NAME}.rope.dimension_count_swa"), narrow);
    Ok(())
}

/// Elements of the input of a single layer.
pub(super) fn layer_input(config: &Config) -> Result<u64, ConvertError> {
    config.whole("hidden_size_per_layer_input", MAX_WIDTH).map(|width| width.unwrap_or(0).into())
}

/// Elements of the inputs of all layers.
pub(super) fn all_inputs(config: &Config) -> Result<u64, ConvertError> {
    Ok(layer_input(config)? * u64::from(config.count("num_hidden_layers", MAX_LAYERS)?))
}

fn gates_and_ups(config: &Config) -> Result<u64, ConvertError> {
    let inner = config.optional_count(&["moe_intermediate_size", "expert_intermediate_size"], MAX_WIDTH)?;
    Ok(2 * u64::from(inner.unwrap_or(0)))
}
