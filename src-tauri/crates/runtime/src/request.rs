//! A generation request and the events that answer it.

use std::time::Duration;

use cairn_kv::{CacheScope, RecomputedTokens};
use cairn_tensor::AdapterUse;

use crate::constraint::Constrained;
use crate::context_full::{ContextFull, ContextFullPolicy};
use crate::picture::PromptPicture;

/// One request for text.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The whole prompt. The scheduler looks up which part of it is cached. A picture has as many numbers as the tower has output
    /// rows: see [`PromptPicture::number`].
    pub prompt: Vec<u32>,
    /// The pictures of the prompt. Each is in the prompt once at most.
    pub pictures: Vec<PromptPicture>,
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// Texts that end the answer. They are not part of it.
    pub stop: Vec<String>,
    /// Control tokens with a text that is part of the answer, for a parser of the answer.
    pub visible_tokens: Vec<u32>,
    /// Maximum number of tokens to generate. [`MAX_ANSWER_CONTEXTS`] is a limit in any case.
    pub max_tokens: Option<u32>,
    /// What the answer must match. It ends when nothing can follow it. With [`FinishReason::Length`] it may be incomplete.
    pub constraint: Option<Constrained>,
    /// Report the log probability of each token, and of this many most likely tokens at its position.
    pub logprobs: Option<usize>,
    /// What to do when the context is full.
    pub on_context_full: ContextFullPolicy,
    /// Which cached rows the request may use, and who owns the rows that it computes.
    pub scope: CacheScope,
    /// The model's adapters that the answer uses, by their index; all with the scale 1 if none is selected.
    pub adapters: Option<Vec<AdapterUse>>,
}

/// Maximum length of an answer in contexts, also of a request without a limit of its own: an answer that shifts its context or
/// gets shorter prompts ends after ten times the context's tokens. The limit is Ollama's.
pub const MAX_ANSWER_CONTEXTS: usize = 10;

/// How a token is chosen. The defaults and the order of the steps are Ollama's: penalties, top-k, typical-p, top-p, min-p,
/// temperature, draw. A constraint applies after the penalties.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0 takes the most likely token.
    pub temperature: f32,
    /// Keep the k most likely tokens; 0 or less keeps all.
    pub top_k: i32,
    /// Keep the most likely tokens whose probabilities sum to this (Holtzman et al., arXiv 1904.09751); 1 keeps all.
    pub top_p: f32,
    /// Drop tokens less likely than this fraction of the most likely one; 0 drops nothing.
    pub min_p: f32,
    /// Keep the tokens closest to the expected surprise (Meister et al., arXiv 2202.00666); 1 keeps all.
    pub typical_p: f32,
    /// Number of recent tokens that the penalties apply to; 0 disables them, a negative number means the whole context.
    pub repeat_last_n: i32,
    /// Divides positive and multiplies negative logits of recent tokens (Keskar et al., arXiv 1909.05858); 1 changes nothing.
    pub repeat_penalty: f32,
    /// Subtracted from the logit of a recent token.
    pub presence_penalty: f32,
    /// Subtracted for each time that a recent token occurs.
    pub frequency_penalty: f32,
    /// Seed of the random draw. Without one, the model supplies a seed.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.9,
            min_p: 0.0,
            typical_p: 1.0,
            repeat_last_n: 64,
            repeat_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: None,
        }
    }
}

/// An event of a running generation.
#[derive(Clone, Debug)]
pub enum Event {
    /// The next piece of text.
    Delta(Delta),
    /// The context is full, and the scheduler requests a shorter prompt.
    ContextFull(ContextFull),
    /// The generation finished. This is the last event.
    Finish(Finish),
    /// The generation failed. This is the last event.
    Error(GenerateError),
}

/// A piece of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// Complete characters without stop texts. Empty only for tokens without text.
    pub text: String,
    /// Log probabilities of the tokens whose text ends here, if requested.
    pub logprobs: Vec<Logprob>,
    /// Usage up to here, so that a cancelled request can report it too.
    pub usage: Usage,
}

/// Token counts and times of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the whole prompt, cached or not.
    pub prompt_tokens: usize,
    /// Prompt tokens that were not computed because their rows were cached.
    pub cached_tokens: usize,
    /// The part of the cached tokens that was restored from tiers.
    pub restored: RestoreUsage,
    /// Time spent on the prompt tokens that were computed.
    pub prompt_ns: u64,
    /// Generated tokens.
    pub eval_tokens: usize,
    /// Time spent on generated tokens.
    pub eval_ns: u64,
}

/// Log probabilities at one position of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprob {
    /// The token that was chosen.
    pub chosen: TokenLogprob,
    /// The most likely tokens, in descending order.
    pub top: Vec<TokenLogprob>,
}

/// A token's log probability by the model's own logits, before penalties, constraints, filters and temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token id.
    pub token: u32,
    /// The token's text, which may end within a character.
    pub bytes: Vec<u8>,
    /// Natural logarithm of the token's probability, at least [`MIN_LOGPROB`].
    pub logprob: f64,
}

/// Replaces the logarithm of zero, which JSON cannot represent. The value is OpenAI's.
pub const MIN_LOGPROB: f64 = -9999.0;

/// Why a generation stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model generated an end token, a stop text occurred, or nothing can follow under the constraint.
    Stop,
    /// The token limit or the end of the context was reached.
    Length,
}

/// The result of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// Why the generation stopped.
    pub reason: FinishReason,
    /// Total usage.
    pub usage: Usage,
    /// The generated token ids.
    pub tokens: Vec<u32>,
    /// Tokens that context shifts dropped during the generation.
    pub dropped_tokens: usize,
    /// The stop text that ended the generation.
    pub stop: Option<String>,
}

/// Prompt tokens that were restored from tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreUsage {
    /// Tokens from host memory.
    pub ram_tokens: usize,
    /// Tokens from this machine's disk.
    pub ssd_tokens: usize,
    /// Tokens from the remote tier.
    pub remote_tokens: usize,
    /// Time from the lookup to the last restored chunk.
    pub wait_ns: u64,
    /// Estimated time to compute the restored tokens, from recent measurements.
    pub recompute_ns: u64,
    /// Prompt tokens that were computed, by reason. The last token is always computed and does not count.
    pub recomputed: RecomputedTokens,
}

/// Reason why a drained model ended a generation early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Displaced {
    /// The client read nothing for this time.
    #[error("its client read nothing for {} s", .0.as_secs())]
    Unread(Duration),
    /// The answer was not complete at the deadline of the drain.
    #[error("it was not complete in time")]
    Late,
}

/// Computed numbers that are not finite: NaN or infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFinite {
    /// The logits of a model.
    #[error(
        "the model's logits are not finite numbers: its file may be damaged; check it with `cairn verify`, and its weights with \
         `cairn gguf verify`"
    )]
    Logits,
    /// The logits of a model with an adapter.
    #[error(
        "the model's logits are not finite numbers with its adapter, which may be damaged or have too large weights; use a smaller \
         `adapter_scale`, or a model without the adapter"
    )]
    AdaptedLogits,
    /// The output rows of a vision tower.
    #[error(
        "the vision tower's output for the image is not finite: the tower's file may be damaged; check its weights with \
         `cairn gguf verify`"
    )]
    Picture,
    /// The output rows of the encoder beside a decoder.
    #[error(
        "the encoder's output for the prompt is not finite: the model's file may be damaged; check its weights with \
         `cairn gguf verify`"
    )]
    Input,
}

/// Why a generation failed after the request was accepted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum GenerateError {
    /// The prompt has no tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt leaves no room for an answer.
    #[error("the prompt has {prompt_tokens} tokens, and the context has room for {context_tokens}")]
    PromptTooLong {
        /// Number of prompt tokens.
        prompt_tokens: usize,
        /// Size of the context.
        context_tokens: usize,
    },
    /// The prompt has a token outside of the model's vocabulary.
    #[error("the prompt has token {token}, and the model's vocabulary has {vocabulary}")]
    UnknownToken {
        /// The token id.
        token: u32,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// No page is free, and none can be evicted.
    #[error("KV cache memory is full: {0}")]
    CacheFull(String),
    /// The model file changed while it was mapped.
    #[error("{0}; the model was unloaded, load it again once the file is whole")]
    ModelVanished(String),
    /// The backend rejected a step.
    #[error("computation failed: {0}")]
    Backend(String),
    /// No token can follow under the constraint, or the constraint needs too much work.
    #[error("the answer cannot continue under its constraint: {0}")]
    Constraint(String),
    /// Computed numbers are not finite.
    #[error(transparent)]
    NotFinite(#[from] NotFinite),
    /// The answer was ended to make room for another model.
    #[error("the answer was ended to make room for another model: {0}")]
    Displaced(Displaced),
    /// The scheduler thread ended.
    #[error("the model was unloaded while the answer was being computed")]
    Unloaded,
}
