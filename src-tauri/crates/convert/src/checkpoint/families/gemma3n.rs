//! Gemma 3n, text: several residual streams, products of low rank beside attention, inputs of single layers, sparse gates,
//! and last layers that share keys and values. Weights of norms are stored as they are.
//!
//! Checkpoints have embeddings of tokens for images and sound, but no inputs of layers for these tokens. They are left out.

use serde_json::Value;

use super::super::config::{CONFIG, Config, MAX_LAYERS, MAX_WIDTH, excerpt};
use super::super::decoder::{
    ATTENTION, Decoder, Dim, Key, MLP, OUTPUT, Order, PLAIN, Row, number, optional_count, row, whole,
};
use super::super::error::{ConvertError, invalid, unsupported};
use super::super::tokenizer::MAX_TOKENS;
use super::gemma4::{all_inputs, layer_input};
use super::{gemma, windows};

const NAME: &str = "gemma3n";
/// Number of tokens that have inputs of layers.
const TOKENS: &str = "vocab_size_per_layer_input";
/// Share of the elements of a gate that is zero in the first layers of published models, and the number of these layers.
const SPARSITY: f64 = 0.95;
const SPARSE_LAYERS: usize = 10;

const KEYS: &[Key] = &[
    optional_count("attention.sliding_window", &["sliding_window"]),
    number("final_logit_softcapping", &["final_logit_softcapping"]),
    whole("attention.shared_kv_layers", &["num_kv_shared_layers"]),
    whole("embedding_length_per_layer_input", &["hidden_size_per_layer_input"]),
    optional_count("altup.num_inputs", &["altup_num_inputs"]),
    whole("altup.active_idx", &["altup_active_idx"]),
];

const TABLES: &[Row] = &[
    row("embed_tokens", "token_embd", &[Dim::Width, Dim::Of(tokens)]).order(text_rows),
    row("embed_tokens_per_layer", "per_layer_token_embd", &[Dim::Of(all_inputs), Dim::Of(tokens)]),
    row("per_layer_model_projection", "per_layer_model_proj", &[Dim::Width, Dim::Of(all_inputs)]),
    row("per_layer_projection_norm", "per_layer_proj_norm", &[Dim::Of(layer_input)]),
    row("altup_projections.*", "altup_proj", &[Dim::Width, Dim::Width, Dim::Of(other_streams)]).stacked(other_streams),
    row("altup_unembed_projections.*", "altup_unembd_proj", &[Dim::Width, Dim::Width, Dim::Of(other_streams)])
        .stacked(other_streams),
    row("norm", "output_norm", &[Dim::Width]),
    row(OUTPUT, "output", &[Dim::Width, Dim::Of(tokens)]).order(text_rows),
];

const LAYER: &[Row] = &[
    row("altup.correct_output_scale", "altup_correct_scale", &[Dim::Width]),
    row("altup.correction_coefs", "altup_correct_coef", &[Dim::Any, Dim::Of(streams)]),
    row("altup.prediction_coefs", "altup_predict_coef", &[Dim::Any, Dim::Of(squared_streams)]),
    row("altup.modality_router", "altup_router", &[Dim::Width, Dim::Any]),
    row("altup.router_norm", "altup_router_norm", &[Dim::Width]),
    row("laurel.linear_left", "laurel_l", &[Dim::Width, Dim::Any]),
    row("laurel.linear_right", "laurel_r", &[Dim::Any, Dim::Width]),
    row("laurel.post_laurel_norm", "laurel_post_norm", &[Dim::Width]),
    row("per_layer_input_gate", "inp_gate", &[Dim::Width, Dim::Of(layer_input)]),
    row("per_layer_projection", "proj", &[Dim::Of(layer_input), Dim::Width]),
    row("post_per_layer_input_norm", "post_norm", &[Dim::Width]),
];

pub(super) const GEMMA_3N: Decoder = Decoder {
    architectures: &["Gemma3nForCausalLM", "Gemma3nForConditionalGeneration"],
    name: NAME,
    keys: KEYS,
    tables: TABLES,
    layer: &[ATTENTION, gemma::HEAD_NORMS, gemma::NORMS, MLP, LAYER],
    activations: &["gelu_pytorch_tanh"],
    space_prefix: Some(false),
    prepare,
    more: |config, metadata| {
        gemma::add_caps(config, NAME, metadata);
        windows::add_pattern(config, NAME, metadata)?;
        let layers = config.count("num_hidden_layers", MAX_LAYERS)? as usize;
        metadata.set(format!("{NAME}.activation_sparsity_scale"), limits(config, layers)?);
        Ok(())
    },
    ..PLAIN
};

fn prepare(config: &mut Config) -> Result<(), ConvertError> {
    if let Some(tokens) = config.optional_count(&[TOKENS], MAX_TOKENS as u32)? {
        let all = config.optional_count(&["vocab_size"], MAX_TOKENS as u32)?;
        config.set("vocab_size", all.map_or(tokens, |all| all.min(tokens)));
    }
    let widths = match config.value("intermediate_size") {
        Value::Array(widths) => widths.clone(),
        _ => return Ok(()),
    };
    match widths.split_first() {
        Some((first, others)) if others.iter().all(|width| width == first) => {
            config.set("intermediate_size", first.clone());
            Ok(())
        }
        _ => Err(unsupported(format!("{NAME} with MLPs of several widths"))),
    }
}

fn tokens(config: &Config) -> Result<u64, ConvertError> {
    config.count("vocab_size", MAX_TOKENS as u32).map(u64::from)
}

/// The rows of tokens of texts, which are the first ones.
fn text_rows(config: &Config) -> Result<Order, ConvertError> {
    Ok(Order::rows(std::iter::once(0..tokens(config)?)))
}

fn streams(config: &Config) -> Result<u64, ConvertError> {
    Ok(config.optional_count(&["altup_num_inputs"], MAX_WIDTH)?.unwrap_or(4).into())
}

fn squared_streams(config: &Config) -> Result<u64, ConvertError> {
    streams(config).map(|streams| streams * streams)
}

/// Streams beside the active one.
fn other_streams(config: &Config) -> Result<u64, ConvertError> {
    streams(config).map(|streams| streams - 1)
}

/// Returns the limit of each layer's gates, in deviations: elements below it are zero.
fn limits(config: &Config, layers: usize) -> Result<Vec<f32>, ConvertError> {
    const KEY: &str = "activation_sparsity_pattern";
    let share = |value: &Value| {
        let share = value.as_f64().filter(|share| (0.0..1.0).contains(share));
        share.ok_or_else(|| invalid(CONFIG, format!("{KEY} has the share {}", excerpt(value))))
    };
    let shares: Vec<f64> = match config.value(KEY) {
        Value::Array(shares) if shares.len() == layers => shares.iter().map(share).collect::<Result<_, _>>()?,
        Value::Null => {
            let sparse = if layers > SPARSE_LAYERS { SPARSE_LAYERS } else { 0 };
            (0..layers).map(|layer| if layer < sparse { SPARSITY } else { 0.0 }).collect()
        }
        _ => return Err(invalid(CONFIG, format!("{KEY} is not a list of {layers} shares"))),
    };
    Ok(shares.into_iter().map(quantile).collect())
}

/// Returns the deviation that a share of a normal distribution is below.
fn quantile(share: f64) -> f32 {
    if share <= 0.0 {
        return f32::NEG_INFINITY;
    }
    if share < 0.5 {
        return -quantile(1.0 - share);
    }
    // No share in double precision below 1 is farther.
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        *(if share_below(middle) < share { &mut low } else { &mut high }) = middle;
    }
    low as f32
}

/// Returns the share of a normal distribution that is below `x`, which is not negative: the series of x^(2n+1) / (2n+1)!!.
fn share_below(x: f64) -> f64 {
    let (mut sum, mut term, mut odd) = (x, x, 1.0);
    while term > sum * f64::EPSILON {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 + sum * (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        for (share, deviation) in
            [(0.5, 0.0), (0.95, 1.644_853_6), (0.975, 1.959_964), (0.999, 3.090_232), (0.05, -1.644_853_6)]
        {
            let found = quantile(share);
            assert!((found - deviation).abs() < 1e-6, "{share}: {found}, not {deviation}");
        }
        assert_eq!(quantile(0.0), f32::NEG_INFINITY, "a dense layer");
        assert!(quantile(1.0 - f64::EPSILON / 2.0) < 9.0, "the largest share below 1");
    }
}
