//! Errors of inference: loading, prompts, options and generation.

use crate::values::OptionError;
use cairn_runtime::{GenerateError, LoadError, PictureError, UnknownKvType};

use crate::library;
use crate::panics::Panicked;
use crate::settings::UnknownContextShift;

/// Why a model could not be loaded, or a request to it failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model cannot be found or read.
    #[error(transparent)]
    Library(#[from] library::Error),
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] crate::cache::Error),
    /// A remote failed.
    #[error(transparent)]
    Remote(#[from] cairn_upstream::CallError),
    /// A feature that this version lacks.
    #[error("{0} is not supported yet by this version of Cairn")]
    Unsupported(&'static str),
    /// Thinking was requested from a model that cannot think.
    #[error("{0:?} does not support thinking")]
    NoThinking(String),
    /// A request needs a capability that the model lacks. The text is Ollama's, with the full name.
    #[error("{full_name} does not support {capability}")]
    CapabilityMissing {
        /// The model.
        model: String,
        /// The model's name with the registry.
        full_name: String,
        /// Ollama's name of the capability.
        capability: &'static str,
    },
    /// A request has images for a model without a vision tower.
    #[error("{model} does not support vision")]
    VisionMissing {
        /// The model.
        model: String,
    },
    /// The model's vision tower cannot be used.
    #[error("{model} does not support vision: {reason}")]
    VisionUnusable {
        /// The model.
        model: String,
        /// Why its tower cannot be used.
        reason: String,
    },
    /// An image cannot be decoded.
    #[error("image {number} of the request: {source}")]
    Image {
        /// Number of the image in the request, from 1.
        number: usize,
        /// Why it cannot be decoded.
        source: cairn_image::DecodeError,
    },
    /// A request has too many images.
    #[error("the request has {count} images; the maximum is {max}: send fewer")]
    TooManyImages {
        /// Images of the request.
        count: usize,
        /// The maximum.
        max: usize,
    },
    /// The images of a request have too many pixels together.
    #[error("the images of the request have more than {max} pixels together: send smaller or fewer images")]
    TooManyPixels {
        /// The maximum.
        max: u64,
    },
    /// The scaled pixels of the images of a request need too much memory.
    #[error(
        "the images of the request have more than {max} bytes of pixels after they are scaled for the model: send fewer images"
    )]
    TooManyPixelBytes {
        /// The maximum.
        max: usize,
    },
    /// A picture cannot be added to the request.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// An embedding model cannot answer. Contains the name, as the client sent it, and Ollama's name of the request.
    #[error("{model:?} does not support {request}")]
    NoAnswers {
        /// The model.
        model: String,
        /// `chat` or `generate`.
        request: &'static str,
    },
    /// The model is not an embedding model. Contains the name, as the client sent it.
    #[error("this model does not support embeddings")]
    NoEmbeddings(String),
    /// The model is a cross-encoder. Contains the name, as the client sent it.
    #[error("{0:?} scores pairs of texts and has no embeddings; send query and documents to /v1/rerank")]
    ScoresPairs(String),
    /// A text does not fit, and may not be cut. The text is Ollama's, with the numbers.
    #[error("the input length exceeds the context length ({tokens} tokens, {max_tokens} fit)")]
    InputTooLong {
        /// Tokens of the text.
        tokens: usize,
        /// Tokens that fit.
        max_tokens: usize,
    },
    /// A request has too many texts.
    #[error("the request has {count} texts; the maximum is {max}: send several requests")]
    TooManyTexts {
        /// Texts of the request.
        count: usize,
        /// The maximum.
        max: usize,
    },
    /// A token id that the model does not have.
    #[error("input has the token {0}, which the model does not have")]
    ForeignInput(u32),
    /// A text without tokens.
    #[error("input has a text without tokens")]
    EmptyTokens,
    /// The vector of a text is not a number.
    #[error("embedding contains NaN or Inf values")]
    EmbeddingNotFinite,
    /// The format of the answer cannot be enforced.
    #[error(transparent)]
    Format(#[from] cairn_grammar::Error),
    /// The model's tool calls cannot be enforced.
    #[error(
        "{model} writes tool calls in a syntax that cannot be enforced; send tools with tool_choice \"auto\" and without an \
         output format"
    )]
    CallsNotEnforced {
        /// The model.
        model: String,
    },
    /// The format of the answer is a grammar, which has no place for tool calls.
    #[error("a grammar and tools cannot be combined; send one of them")]
    GrammarWithTools,
    /// A raw request has options that change the prompt.
    #[error("raw mode does not support template, system, or context")]
    RawWithTemplate,
    /// A token id that the model does not have.
    #[error("context has the token {0}, which the model does not have")]
    ForeignContext(i64),
    /// An option's value has the wrong type.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// An option's value is out of range.
    #[error("option {name:?} cannot be {value}; it must be {least} or more")]
    OptionRange {
        /// Name of the option.
        name: &'static str,
        /// Requested value.
        value: i64,
        /// Smallest valid value.
        least: i64,
    },
    /// An option names an unknown type of the KV cache.
    #[error(transparent)]
    KvType(#[from] UnknownKvType),
    /// An option names an unknown context shift.
    #[error(transparent)]
    ContextShift(#[from] UnknownContextShift),
    /// The prompt does not fit, and may not be cut.
    #[error(
        "the prompt is longer than the context length currently available to the model; shorten the prompt, or raise \
         num_ctx ({prompt_tokens} tokens, {context_tokens} fit)"
    )]
    TooLong {
        /// Tokens of the prompt.
        prompt_tokens: usize,
        /// Tokens of the context.
        context_tokens: usize,
    },
    /// The prompt does not fit, and the context is too small for a cut prompt.
    #[error(
        "the prompt has {prompt_tokens} tokens, and a context of {context_tokens} is too small to answer even a part of \
         it; raise num_ctx ({least_tokens} at least)"
    )]
    TinyContext {
        /// Tokens of the prompt.
        prompt_tokens: usize,
        /// Tokens of the context.
        context_tokens: usize,
        /// Smallest context for a cut prompt.
        least_tokens: usize,
    },
    /// The model's own chat template failed.
    #[error(transparent)]
    Template(#[from] cairn_prompt::Error),
    /// The model could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The engine failed during generation.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The engine stopped during an answer.
    #[error("the engine stopped before the answer was complete")]
    EngineGone,
    /// The work panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Error {
    /// Whether a conversation exceeds a limit of its template, so that a shorter one may not.
    pub(crate) fn is_template_limit(&self) -> bool {
        matches!(self, Self::Template(cairn_prompt::Error::TooLarge { .. }))
    }
}
