//! Errors of inference: loading, prompts, options and generation.

use cairn_runtime::{GenerateError, LoadError, UnknownKvType};
use cairn_wire::OptionError;

use crate::library;
use crate::settings::UnknownContextShift;

/// Why a model could not be loaded, or a request to it failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model cannot be found or read.
    #[error(transparent)]
    Library(#[from] library::Error),
    /// The tiers cannot be asked.
    #[error(transparent)]
    Cache(#[from] crate::cache::Error),
    /// What this version cannot do.
    #[error("{0} is not supported yet by this version of Cairn")]
    Unsupported(&'static str),
    /// Thinking was asked of a model that does not think.
    #[error("{0:?} does not support thinking")]
    NoThinking(String),
    /// `raw` means that the prompt goes in as it is.
    #[error("raw mode does not support template, system, or context")]
    RawWithTemplate,
    /// Token ids that the model does not have.
    #[error("context has the token {0}, which the model does not have")]
    ForeignContext(i64),
    /// An option's value has the wrong type.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// An option's value cannot be.
    #[error("option {name:?} cannot be {value}; it must be {least} or more")]
    OptionRange {
        /// Which option.
        name: &'static str,
        /// What it was set to.
        value: i64,
        /// The least that it can be.
        least: i64,
    },
    /// An option names a type of the attention cache that there is not.
    #[error(transparent)]
    KvType(#[from] UnknownKvType),
    /// An option names a way to go on in a full context that there is not.
    #[error(transparent)]
    ContextShift(#[from] UnknownContextShift),
    /// The prompt does not fit, and may not be cut.
    #[error(
        "the prompt is longer than the context length currently available to the model; shorten the prompt, or raise \
         num_ctx ({prompt_tokens} tokens, {context_tokens} fit)"
    )]
    TooLong {
        /// How long the prompt is.
        prompt_tokens: usize,
        /// How much context there is.
        context_tokens: usize,
    },
    /// The prompt does not fit, and the context is too small for what would be left of it.
    #[error(
        "the prompt has {prompt_tokens} tokens, and a context of {context_tokens} is too small to answer even a part of \
         it; raise num_ctx ({least_tokens} at least)"
    )]
    TinyContext {
        /// How long the prompt is.
        prompt_tokens: usize,
        /// How much context there is.
        context_tokens: usize,
        /// The smallest context that prompts are cut to.
        least_tokens: usize,
    },
    /// The model's own chat template failed.
    #[error(transparent)]
    Template(#[from] cairn_prompt::Error),
    /// The model could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The engine failed in the middle.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The engine went away in the middle of an answer.
    #[error("the engine stopped before the answer was complete")]
    EngineGone,
}
