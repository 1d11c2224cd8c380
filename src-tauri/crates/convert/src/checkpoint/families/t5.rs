//! T5 (arXiv 1910.10683), T5 1.1 and Flan-T5: an encoder and a decoder, with the names of the `transformers` library.
//!
//! The library divides output rows by the root of their width before it multiplies them by an embedding that is also the
//! output matrix. A file has no such factor, so the last norm of the decoder contains it.

use cairn_gguf::Metadata;

use super::super::config::{CONFIG, Config, MAX_LAYERS, MAX_WIDTH};
use super::super::description::Description;
use super::super::error::{ConvertError, invalid, unsupported};
use super::super::family::{Contents, Family, Layout, Place};
use super::super::unigram;

/// Name of the architecture in GGUF.
const T_5: &str = "t5";
/// Distance from which on all rows have the same bias, which GGUF does not contain.
const FARTHEST: u32 = 128;
/// Values of the library for keys that a config may lack.
const BUCKETS: u32 = 32;
const CONTEXT: u32 = 512;
const EPSILON: f32 = 1e-6;
/// Tensor that the first checkpoints have and no forward pass uses.
const UNUSED: &str = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";

/// A dimension.
#[derive(Clone, Copy, Debug)]
enum Size {
    Any,
    Width,
    /// All heads.
    Attention,
    /// Width inside the MLP.
    Inner,
    Heads,
    Buckets,
}

/// Names in the checkpoint and in GGUF, without the ending, and dimensions, row length first.
type Row = (&'static str, &'static str, &'static [Size]);

/// Tensors outside of layers.
const TABLES: &[Row] = &[
    (SHARED[0], "token_embd", &[Size::Width, Size::Any]),
    (SHARED[1], "token_embd", &[Size::Width, Size::Any]),
    (SHARED[2], "token_embd", &[Size::Width, Size::Any]),
    ("encoder.final_layer_norm", "enc.output_norm", &[Size::Width]),
    (LAST_NORM, "dec.output_norm", &[Size::Width]),
    (OUTPUT, "output", &[Size::Width, Size::Any]),
];
/// Names of the embedding, of which a checkpoint has one or several.
const SHARED: [&str; 3] = ["shared", "encoder.embed_tokens", "decoder.embed_tokens"];
const LAST_NORM: &str = "decoder.final_layer_norm";
const OUTPUT: &str = "lm_head";

/// Attention inside a side.
const OWN: &[Row] = &[
    ("layer.0.layer_norm", "attn_norm", &[Size::Width]),
    ("layer.0.SelfAttention.q", "attn_q", &[Size::Width, Size::Attention]),
    ("layer.0.SelfAttention.k", "attn_k", &[Size::Width, Size::Attention]),
    ("layer.0.SelfAttention.v", "attn_v", &[Size::Width, Size::Attention]),
    ("layer.0.SelfAttention.o", "attn_o", &[Size::Attention, Size::Width]),
    ("layer.0.SelfAttention.relative_attention_bias", "attn_rel_b", &[Size::Heads, Size::Buckets]),
];

/// Attention of the decoder to the encoder's rows.
const CROSS: &[Row] = &[
    ("layer.1.layer_norm", "cross_attn_norm", &[Size::Width]),
    ("layer.1.EncDecAttention.q", "cross_attn_q", &[Size::Width, Size::Attention]),
    ("layer.1.EncDecAttention.k", "cross_attn_k", &[Size::Width, Size::Attention]),
    ("layer.1.EncDecAttention.v", "cross_attn_v", &[Size::Width, Size::Attention]),
    ("layer.1.EncDecAttention.o", "cross_attn_o", &[Size::Attention, Size::Width]),
];

/// The MLP. The number of its part precedes these names.
const MLP: &[Row] =
    &[("layer_norm", "ffn_norm", &[Size::Width]), ("DenseReluDense.wo", "ffn_down", &[Size::Inner, Size::Width])];
const PLAIN: &[Row] = &[("DenseReluDense.wi", "ffn_up", &[Size::Width, Size::Inner])];
const GATED: &[Row] = &[
    ("DenseReluDense.wi_0", "ffn_gate", &[Size::Width, Size::Inner]),
    ("DenseReluDense.wi_1", "ffn_up", &[Size::Width, Size::Inner]),
];

pub(super) struct T5;

impl Family for T5 {
    fn architectures(&self) -> &'static [&'static str] {
        &["T5ForConditionalGeneration", "T5WithLMHeadModel", "MT5ForConditionalGeneration"]
    }

    fn name(&self) -> &'static str {
        T_5
    }

    fn metadata(&self, description: &Description<'_>) -> Result<Metadata, ConvertError> {
        let config = &description.config;
        has_gates(config)?;
        if let Some(distance) = config.optional_count(&["relative_attention_max_distance"], u32::MAX)?
            && distance != FARTHEST
        {
            return Err(unsupported(format!("{T_5} with relative_attention_max_distance {distance}")));
        }
        let mut metadata = description.general(T_5);
        description.add_sampling(&mut metadata)?;
        let mut set = |key: &str, value: cairn_gguf::Value| drop(metadata.set(format!("{T_5}.{key}"), value));
        set("block_count", config.count("num_layers", MAX_LAYERS)?.into());
        set("decoder_block_count", decoder_layers(config)?.into());
        set("context_length", config.optional_count(&["n_positions"], u32::MAX)?.unwrap_or(CONTEXT).into());
        set("embedding_length", config.count("d_model", MAX_WIDTH)?.into());
        set("feed_forward_length", config.count("d_ff", MAX_WIDTH)?.into());
        set("attention.head_count", config.count("num_heads", MAX_WIDTH)?.into());
        set("attention.key_length", config.count("d_kv", MAX_WIDTH)?.into());
        set("attention.value_length", config.count("d_kv", MAX_WIDTH)?.into());
        set("attention.relative_buckets_count", buckets(config)?.into());
        let epsilon = config.optional_number(&["layer_norm_epsilon"])?.unwrap_or(EPSILON);
        set("attention.layer_norm_rms_epsilon", epsilon.into());
        let start = match config.whole("decoder_start_token_id", u32::MAX)? {
            Some(start) => Some(start),
            None => config.whole("pad_token_id", u32::MAX)?,
        };
        let start = start.ok_or_else(|| invalid(CONFIG, "it has neither decoder_start_token_id nor pad_token_id"))?;
        set("decoder_start_token_id", start.into());
        unigram::add(description, &mut metadata)?;
        let tokens = metadata.required_strings("tokenizer.ggml.tokens")?.iter().count();
        if start as usize >= tokens {
            let last = tokens.saturating_sub(1);
            let reason = format!("the decoder starts with the token {start}, which is not one of the ids 0 to {last}");
            return Err(invalid(CONFIG, reason));
        }
        Ok(metadata)
    }

    fn needs_output(&self, description: &Description<'_>) -> Result<bool, ConvertError> {
        Ok(!is_tied(&description.config)?)
    }

    fn places(&self, name: &str, description: &Description<'_>) -> Result<Vec<Place>, ConvertError> {
        let config = &description.config;
        let unknown = || ConvertError::UnknownTensor { name: name.to_owned(), family: T_5 };
        let stem = name.strip_suffix(".weight").ok_or_else(unknown)?;
        if name == UNUSED || (stem == OUTPUT && is_tied(config)?) {
            return Ok(Vec::new());
        }
        let (to, dims) = place_of(stem, config)?.ok_or_else(unknown)?;
        let factor = if stem == LAST_NORM && is_tied(config)? {
            f64::from(config.count("d_model", MAX_WIDTH)?).sqrt().recip() as f32
        } else {
            1.0
        };
        Ok(vec![Place {
            name: format!("{to}.weight"),
            expert: None,
            experts: 0,
            contents: Contents::Numbers,
            layout: Layout { factor, ..Layout::PLAIN },
            is_reshaped: false,
            is_shared: SHARED.contains(&stem),
            dims: dims.iter().map(|&dim| size(dim, config)).collect::<Result<_, _>>()?,
        }])
    }
}

/// Returns the name in GGUF, without the ending, and the dimensions of a tensor.
fn place_of(stem: &str, config: &Config) -> Result<Option<(String, &'static [Size])>, ConvertError> {
    let find = |rows: &[&'static [Row]], part: &str| {
        let row = rows.iter().copied().flatten().find(|(from, ..)| *from == part);
        row.map(|(_, to, dims)| (*to, *dims))
    };
    if let Some((to, dims)) = find(&[TABLES], stem) {
        return Ok(Some((to.to_owned(), dims)));
    }
    let of_encoder = stem.strip_prefix("encoder.block.").map(|rest| ("enc", rest));
    let Some((side, rest)) = of_encoder.or_else(|| stem.strip_prefix("decoder.block.").map(|rest| ("dec", rest)))
    else {
        return Ok(None);
    };
    let Some((layer, part)) = rest.split_once('.') else { return Ok(None) };
    let Ok(layer) = layer.parse::<u32>() else { return Ok(None) };
    let (layers, of_mlp, attention): (u32, &str, &[&'static [Row]]) = match side {
        "enc" => (config.count("num_layers", MAX_LAYERS)?, "layer.1.", &[OWN]),
        _ => (decoder_layers(config)?, "layer.2.", &[OWN, CROSS]),
    };
    let mlp: &[&'static [Row]] = if has_gates(config)? { &[MLP, GATED] } else { &[MLP, PLAIN] };
    let row = match part.strip_prefix(of_mlp) {
        Some(part) => find(mlp, part),
        None => find(attention, part),
    };
    Ok(row.filter(|_| layer < layers).map(|(to, dims)| (format!("{side}.blk.{layer}.{to}"), dims)))
}

fn size(dim: Size, config: &Config) -> Result<Option<u64>, ConvertError> {
    let count = |key: &str| config.count(key, MAX_WIDTH).map(u64::from);
    let size = match dim {
        Size::Any => return Ok(None),
        Size::Width => count("d_model")?,
        Size::Attention => count("num_heads")? * count("d_kv")?,
        Size::Inner => count("d_ff")?,
        Size::Heads => count("num_heads")?,
        Size::Buckets => buckets(config)?.into(),
    };
    Ok(Some(size))
}

fn buckets(config: &Config) -> Result<u32, ConvertError> {
    Ok(config.optional_count(&["relative_attention_num_buckets"], MAX_WIDTH)?.unwrap_or(BUCKETS))
}

fn decoder_layers(config: &Config) -> Result<u32, ConvertError> {
    match config.optional_count(&["num_decoder_layers"], MAX_LAYERS)? {
        Some(layers) => Ok(layers),
        None => config.count("num_layers", MAX_LAYERS),
    }
}

/// Returns whether MLPs have gates. The engine computes those with GELU, and plain MLPs with ReLU.
fn has_gates(config: &Config) -> Result<bool, ConvertError> {
    match config.optional_text("feed_forward_proj")? {
        None | Some("relu") => Ok(false),
        Some("gated-gelu") => Ok(true),
        Some(other) => Err(unsupported(format!("{T_5} with the MLP {other:?}"))),
    }
}

/// Returns whether the embedding is the output matrix, with a factor. Newer configs have a key for the factor, and the
/// other key for both kinds.
fn is_tied(config: &Config) -> Result<bool, ConvertError> {
    match config.flag("scale_decoder_outputs")? {
        Some(is_scaled) => Ok(is_scaled),
        None => Ok(config.flag("tie_word_embeddings")?.unwrap_or(true)),
    }
}
