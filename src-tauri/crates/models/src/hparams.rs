//! Hyperparameters from a model's metadata.

use cairn_gguf::{Array, Error, Metadata, Pooling, Value};
use cairn_tensor::Limits;

use crate::build::Builder;
use crate::embedding::EmbeddingOutput;
use crate::error::LoadError;

/// Kind of normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// RMSNorm; the epsilon is `attention.layer_norm_rms_epsilon`.
    Rms,
    /// LayerNorm; the epsilon is `attention.layer_norm_epsilon`.
    Layer,
}

impl NormKind {
    /// Returns the key of its epsilon.
    pub(crate) fn epsilon_key(self) -> &'static str {
        match self {
            Self::Rms => "attention.layer_norm_rms_epsilon",
            Self::Layer => "attention.layer_norm_epsilon",
        }
    }
}

/// Larger than in any model. Prevents overflow of products and huge lists of tensors.
pub(crate) const MAX_LAYERS: u32 = 4096;
pub(crate) const MAX_WIDTH: u32 = 1 << 22;

/// Hyperparameters of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Hparams {
    /// `general.architecture`, which is also the prefix of the other keys.
    pub architecture: String,
    /// Maximum number of positions.
    pub context_length: usize,
    /// Width of the residual stream.
    pub embedding_length: usize,
    /// Width inside the MLP; the largest one if layers differ.
    pub feed_forward_length: usize,
    /// Transformer blocks.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads, of layers that see the whole context if layers differ.
    pub kv_heads: usize,
    /// Elements of one head, of layers that see the whole context if layers differ.
    pub head_dim: usize,
    /// Kind of its norms.
    pub norm: NormKind,
    /// Epsilon of its norms: added to the mean of squares, or to the variance.
    pub epsilon: f32,
    /// Rows of the embedding table, and width of the logits.
    pub vocab: usize,
    /// Original context length of a model that computes longer sequences differently (LongRoPE). KV rows of the model
    /// loaded for long sequences must not be mixed with those of the model loaded for short ones.
    pub long_context: Option<usize>,
    /// How the vector of a text is computed, if this is an embedding model.
    pub embedding: Option<EmbeddingOutput>,
    /// The token with which the answer of a model with an encoder and a decoder begins.
    pub decoder_start: Option<u32>,
}

/// Typed access to the keys of one architecture.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'a str,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(metadata: &'a Metadata) -> Result<Self, Error> {
        Ok(Self { metadata, architecture: metadata.required_str("general.architecture")? })
    }

    pub(crate) fn architecture(&self) -> &'a str {
        self.architecture
    }

    pub(crate) fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    pub(crate) fn u32(&self, key: &str) -> Result<Option<u32>, Error> {
        self.metadata.u32(&self.name(key))
    }

    pub(crate) fn f32(&self, key: &str) -> Result<Option<f32>, Error> {
        self.metadata.f32(&self.name(key))
    }

    pub(crate) fn f32s(&self, key: &str) -> Result<Option<&'a [f32]>, Error> {
        self.metadata.f32s(&self.name(key))
    }

    pub(crate) fn bool(&self, key: &str) -> Result<Option<bool>, Error> {
        self.metadata.bool(&self.name(key))
    }

    pub(crate) fn str(&self, key: &str) -> Result<Option<&'a str>, Error> {
        self.metadata.str(&self.name(key))
    }

    /// Returns the value of a key of any type.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.metadata.get(&self.name(key))
    }

    /// Reads a list of counts, one for each layer. `None` for anything else than a list of integers.
    pub(crate) fn list(&self, key: &str) -> Result<Option<Vec<u32>>, LoadError> {
        let counts: Vec<i64> = match self.get(key) {
            Some(Value::Array(Array::U32(counts))) => counts.iter().copied().map(i64::from).collect(),
            Some(Value::Array(Array::I32(counts))) => counts.iter().copied().map(i64::from).collect(),
            _ => return Ok(None),
        };
        let valid = |count: i64| u32::try_from(count).ok().filter(|&count| count <= MAX_WIDTH).ok_or(count);
        let counts: Result<Vec<u32>, i64> = counts.into_iter().map(valid).collect();
        counts.map(Some).map_err(|count| self.invalid(key, format!("{count} is not in 0 to {MAX_WIDTH}")))
    }

    /// Reads a positive number. Zero counts as missing, as some files write it so.
    pub(crate) fn positive(&self, key: &str) -> Result<Option<f32>, LoadError> {
        match self.f32(key)? {
            None | Some(0.0) => Ok(None),
            Some(value) if value.is_finite() && value > 0.0 => Ok(Some(value)),
            Some(value) => Err(self.invalid(key, format!("{value} is not a positive number"))),
        }
    }

    /// Reads `pooling_type` and `attention.causal`. Returns `None` for a model that generates text.
    pub(crate) fn embedding_output(&self) -> Result<Option<EmbeddingOutput>, LoadError> {
        let pooling = match self.u32(Pooling::KEY)? {
            None | Some(Pooling::NONE) => return Ok(None),
            Some(number) => Pooling::from_number(number)
                .ok_or_else(|| self.invalid(Pooling::KEY, format!("{number} is not in 0 to 4")))?,
        };
        Ok(Some(EmbeddingOutput { pooling, is_causal: self.bool("attention.causal")?.unwrap_or(true) }))
    }

    /// Reads the width inside MLPs, or the largest of a list.
    fn feed_forward_length(&self) -> Result<usize, LoadError> {
        const KEY: &str = "feed_forward_length";
        match self.list(KEY)?.map(|widths| widths.into_iter().max().unwrap_or(0)) {
            Some(0) => Err(self.invalid(KEY, "no layer has an MLP")),
            Some(widest) => Ok(widest as usize),
            // Files of models without MLPs may have the width of their experts only.
            None => self.count(KEY, self.u32("expert_feed_forward_length")?, MAX_WIDTH),
        }
    }

    /// Creates the error for an invalid value of a key.
    pub(crate) fn invalid(&self, key: &str, why: impl Into<String>) -> LoadError {
        LoadError::Key { key: self.name(key), why: why.into() }
    }

    /// Reads a count from 1 to `max`. A missing key gives the default, or an error without a default.
    pub(crate) fn count(&self, key: &str, default: Option<u32>, max: u32) -> Result<usize, LoadError> {
        let value = match (self.u32(key)?, default) {
            (Some(value), _) | (None, Some(value)) => value,
            (None, None) => return Err(Error::MissingKey { key: self.name(key) }.into()),
        };
        match value {
            value if (1..=max).contains(&value) => Ok(value as usize),
            value => Err(self.invalid(key, format!("{value} is not in 1 to {max}"))),
        }
    }

    /// Reads a count of each layer, from 1 to `max`: a list, or one number for all.
    pub(crate) fn counts(
        &self,
        key: &str,
        default: Option<u32>,
        max: u32,
        layers: usize,
    ) -> Result<Vec<usize>, LoadError> {
        let Some(counts) = self.list(key)? else { return Ok(vec![self.count(key, default, max)?; layers]) };
        if counts.len() < layers {
            return Err(self.invalid(key, format!("{} numbers for {layers} layers", counts.len())));
        }
        match counts.iter().find(|count| !(1..=max).contains(*count)) {
            Some(count) => Err(self.invalid(key, format!("{count} is not in 1 to {max}"))),
            None => Ok(counts[..layers].iter().map(|&count| count as usize).collect()),
        }
    }
}

impl Hparams {
    /// Returns whether a model loaded for `context_tokens` uses its computation for long sequences.
    pub fn is_long(&self, context_tokens: usize) -> bool {
        self.long_context.is_some_and(|original| context_tokens.min(self.context_length) > original)
    }

    /// Returns the limits of batches. An embedding model computes a whole text in one batch, and the output of each row
    /// may be requested.
    pub fn limits(&self, context_tokens: usize, limits: Limits) -> Limits {
        match self.embedding {
            None => limits,
            Some(_) => {
                let rows = limits.rows.max(context_tokens.min(self.context_length));
                Limits { rows, logit_rows: rows }
            }
        }
    }

    /// Reads the keys that all families share, with RMSNorm.
    pub(crate) fn read(b: &Builder<'_>) -> Result<Self, LoadError> {
        Self::read_with(b, NormKind::Rms)
    }

    /// Reads the keys that all families share, with this kind of norm.
    pub(crate) fn read_with(b: &Builder<'_>, norm: NormKind) -> Result<Self, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let heads = keys.count("attention.head_count", None, MAX_WIDTH)?;
        let kv_heads = keys.count("attention.head_count_kv", Some(heads as u32), MAX_WIDTH)?;
        Self::read_with_heads(b, norm, kv_heads)
    }

    /// Reads the keys that all families share, except the number of key/value heads.
    pub(crate) fn read_with_heads(b: &Builder<'_>, norm: NormKind, kv_heads: usize) -> Result<Self, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let embedding_length = keys.count("embedding_length", None, MAX_WIDTH)?;
        let heads = keys.count("attention.head_count", None, MAX_WIDTH)?;
        if !heads.is_multiple_of(kv_heads) {
            let why = format!("{kv_heads} key/value heads do not divide {heads} heads");
            return Err(keys.invalid("attention.head_count_kv", why));
        }
        let head_dim = keys.count("attention.key_length", Some((embedding_length / heads) as u32), MAX_WIDTH)?;
        let value_dim = keys.count("attention.value_length", Some(head_dim as u32), MAX_WIDTH)?;
        if value_dim != head_dim {
            let what = format!("a model with keys of {head_dim} and values of {value_dim} elements");
            return Err(LoadError::Unsupported { what });
        }
        Self::read_with_shape(b, norm, kv_heads, head_dim)
    }

    /// Reads the keys that all families share, except the number of key/value heads and the elements of a head.
    pub(crate) fn read_with_shape(
        b: &Builder<'_>,
        norm: NormKind,
        kv_heads: usize,
        head_dim: usize,
    ) -> Result<Self, LoadError> {
        let keys = Keys::new(b.metadata())?;
        let embedding_length = keys.count("embedding_length", None, MAX_WIDTH)?;
        let heads = keys.count("attention.head_count", None, MAX_WIDTH)?;
        let width = heads * head_dim;
        if width > MAX_WIDTH as usize {
            let why = format!("{heads} heads with {width} elements together are more than {MAX_WIDTH}");
            return Err(keys.invalid("attention.head_count", why));
        }
        let key = norm.epsilon_key();
        // Converters of Nemotron H write the key of LayerNorm for RMSNorm.
        let epsilon = keys.f32(key)?.or(keys.f32(NormKind::Layer.epsilon_key())?);
        let epsilon = epsilon.ok_or_else(|| LoadError::from(Error::MissingKey { key: keys.name(key) }))?;
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            return Err(keys.invalid(key, format!("{epsilon} is not a number from zero up")));
        }
        // The last blocks predict further tokens (Gloeckle et al., arXiv 2404.19737), which is not computed.
        let blocks = keys.count("block_count", None, MAX_LAYERS)?;
        let predicting = keys.u32("nextn_predict_layers")?.unwrap_or(0) as usize;
        let layers = blocks.checked_sub(predicting).filter(|&layers| layers > 0).ok_or_else(|| {
            keys.invalid("nextn_predict_layers", format!("{predicting} of {blocks} layers predict further tokens"))
        })?;
        Ok(Self {
            architecture: keys.architecture().to_owned(),
            context_length: keys.count("context_length", None, u32::MAX)?,
            embedding_length,
            feed_forward_length: keys.feed_forward_length()?,
            layers,
            heads,
            kv_heads,
            head_dim,
            norm,
            epsilon,
            vocab: match b.rows_of("token_embd.weight").or_else(|| b.rows_of("output.weight")) {
                Some(rows) => rows,
                // Only without a file, or for a file that will be rejected.
                None => keys.u32("vocab_size")?.unwrap_or(0) as usize,
            },
            long_context: None,
            embedding: keys.embedding_output()?,
            decoder_start: None,
        })
    }
}
