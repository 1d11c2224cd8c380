//! Gemma, Gemma 2, the text part of Gemma 3, and EmbeddingGemma. Their checkpoints have the distance of norms from 1.

use cairn_gguf::Metadata;
use serde_json::Value;

use super::super::config::{CONFIG, Config, MAX_LAYERS, MAX_WIDTH};
use super::super::decoder::{self, ATTENTION, Decoder, Dim, Key, MLP, PLAIN, Row, number, optional_count, row};
use super::super::error::{ConvertError, invalid, unsupported};

/// Norms before and after attention and MLP.
pub(super) const NORMS: &[Row] = &[
    row("input_layernorm", "attn_norm", &[Dim::Width]),
    row("post_attention_layernorm", "post_attention_norm", &[Dim::Width]),
    row("pre_feedforward_layernorm", "ffn_norm", &[Dim::Width]),
    row("post_feedforward_layernorm", "post_ffw_norm", &[Dim::Width]),
];

/// Norms over each head of queries and keys.
pub(super) const HEAD_NORMS: &[Row] =
    &[row("self_attn.q_norm", "attn_q_norm", &[Dim::Head]), row("self_attn.k_norm", "attn_k_norm", &[Dim::Head])];

const WINDOW: Key = optional_count("attention.sliding_window", &["sliding_window"]);

/// Values of both generations.
const GEMMA: Decoder =
    Decoder { activations: &["gelu_pytorch_tanh"], norm_shift: 1.0, space_prefix: Some(false), ..PLAIN };

pub(super) const GEMMA_1: Decoder = Decoder {
    architectures: &["GemmaForCausalLM"],
    name: "gemma",
    layer: &[ATTENTION, MLP, decoder::NORMS],
    // Older configs name the exact GELU, which the models were not trained with.
    activations: &["gelu", "gelu_pytorch_tanh"],
    is_tied: true,
    ..GEMMA
};

pub(super) const GEMMA_2: Decoder = Decoder {
    architectures: &["Gemma2ForCausalLM"],
    name: "gemma2",
    keys: &[
        WINDOW,
        number("attn_logit_softcapping", &["attn_logit_softcapping"]),
        number("final_logit_softcapping", &["final_logit_softcapping"]),
    ],
    layer: &[ATTENTION, MLP, NORMS],
    is_tied: true,
    more: |config, metadata| {
        add_caps(config, "gemma2", metadata);
        add_heads(config, "gemma2", 46, metadata)
    },
    ..GEMMA
};

pub(super) const GEMMA_3: Decoder = Decoder {
    architectures: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
    name: "gemma3",
    keys: &[WINDOW, number("final_logit_softcapping", &["final_logit_softcapping"])],
    layer: &[ATTENTION, MLP, NORMS, HEAD_NORMS],
    more: |config, metadata| {
        if !config.value("attn_logit_softcapping").is_null() {
            return Err(unsupported("gemma3 with attn_logit_softcapping"));
        }
        add_heads(config, "gemma3", 62, metadata)?;
        add_defaults("gemma3", metadata);
        add_pattern(config, "gemma3", metadata)
    },
    ..GEMMA
};

/// EmbeddingGemma: Gemma 3 with attention in both directions, and two matrices behind the mean of a text's rows.
pub(super) const GEMMA_EMBEDDING: Decoder = Decoder {
    architectures: &["Gemma3TextModel"],
    name: "gemma-embedding",
    keys: &[
        WINDOW,
        optional_count("dense_2_feat_in", &["dense_2_feat_in"]),
        optional_count("dense_2_feat_out", &["dense_2_feat_out"]),
        optional_count("dense_3_feat_in", &["dense_3_feat_in"]),
        optional_count("dense_3_feat_out", &["dense_3_feat_out"]),
    ],
    tables: &[
        row("embed_tokens", "token_embd", &[Dim::Width, Dim::Any]),
        row("norm", "output_norm", &[Dim::Width]),
        row("dense_2.linear", "dense_2", &[Dim::Width, Dim::Of(|config| size(config, "dense_2_feat_out"))]),
        row(
            "dense_3.linear",
            "dense_3",
            &[Dim::Of(|config| size(config, "dense_3_feat_in")), Dim::Of(|config| size(config, "dense_3_feat_out"))],
        ),
    ],
    layer: &[ATTENTION, MLP, NORMS, HEAD_NORMS],
    is_encoder: true,
    has_dense: true,
    more: |config, metadata| {
        if config.flag("use_bidirectional_attention")? != Some(true) {
            return Err(unsupported("gemma-embedding without use_bidirectional_attention"));
        }
        add_heads(config, "gemma-embedding", u32::MAX, metadata)?;
        add_defaults("gemma-embedding", metadata);
        add_pattern(config, "gemma-embedding", metadata)
    },
    ..GEMMA
};

fn size(config: &Config, key: &str) -> Result<u64, ConvertError> {
    config.count(key, MAX_WIDTH).map(u64::from)
}

/// Adds the size of heads. The engine derives the factor of scores from it; models of `layers_of_27b` layers use the
/// width instead.
fn add_heads(
    config: &Config,
    architecture: &str,
    layers_of_27b: u32,
    metadata: &mut Metadata,
) -> Result<(), ConvertError> {
    let head = config.optional_count(&["head_dim"], MAX_WIDTH)?.unwrap_or(256);
    for part in ["key", "value"] {
        metadata.set(format!("{architecture}.attention.{part}_length"), head);
    }
    let width = config.count("hidden_size", MAX_WIDTH)? / config.count("num_attention_heads", MAX_WIDTH)?;
    let is_27b = config.count("num_hidden_layers", MAX_LAYERS)? == layers_of_27b;
    let expected = if is_27b { width } else { head };
    match config.optional_number(&["query_pre_attn_scalar"])? {
        Some(scalar) if scalar != expected as f32 => {
            Err(unsupported(format!("{architecture} with query_pre_attn_scalar {scalar} instead of {expected}")))
        }
        _ => Ok(()),
    }
}

/// Adds zero for soft caps without a value. Files and configs without the key have a cap.
pub(super) fn add_caps(config: &Config, architecture: &str, metadata: &mut Metadata) {
    for key in ["attn_logit_softcapping", "final_logit_softcapping"].into_iter().filter(|key| config.is_null(key)) {
        metadata.set(format!("{architecture}.{key}"), 0f32);
    }
}

/// Adds values that published configs leave out.
fn add_defaults(architecture: &str, metadata: &mut Metadata) {
    let mut set = |key: &str, value: cairn_gguf::Value| {
        let key = format!("{architecture}.{key}");
        if metadata.get(&key).is_none() {
            metadata.set(key, value);
        }
    };
    set("rope.freq_base", 1_000_000f32.into());
    set("attention.layer_norm_rms_epsilon", 1e-6f32.into());
    set("attention.head_count_kv", 4u32.into());
}

/// Adds the layers with a window, if they are not five of six.
fn add_pattern(config: &Config, architecture: &str, metadata: &mut Metadata) -> Result<(), ConvertError> {
    const PERIOD: usize = 6;
    let layers = config.count("num_hidden_layers", MAX_LAYERS)? as usize;
    let usual = |layer: usize| layer % PERIOD != PERIOD - 1;
    let flags: Vec<bool> = match config.value("layer_types") {
        Value::Array(kinds) if kinds.len() == layers => kinds.iter().map(|kind| kind == "sliding_attention").collect(),
        Value::Null => match config.optional_count(&["sliding_window_pattern"], MAX_LAYERS)? {
            Some(period) => (1..=layers).map(|layer| !layer.is_multiple_of(period as usize)).collect(),
            None => return Ok(()),
        },
        _ => return Err(invalid(CONFIG, format!("layer_types is not a list of {layers} layers"))),
    };
    if flags.iter().enumerate().any(|(layer, &has_window)| has_window != usual(layer)) {
        metadata.set(format!("{architecture}.attention.sliding_window_pattern"), flags);
    }
    Ok(())
}
