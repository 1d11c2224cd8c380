//! What is asked of a loaded model, and what comes back.

use cairn_kv::{Recomputed, Whose};

use crate::full::{Full, WhenFull};

/// One request for text.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The whole prompt. What a cache already holds of it is found by the scheduler.
    pub prompt: Vec<u32>,
    /// How the next token is chosen.
    pub sampling: Sampling,
    /// Texts that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// The most tokens to generate; the context's end is a limit all the same.
    pub max_tokens: Option<u32>,
    /// Tell how likely each token was, and which this many were the likeliest at its place.
    pub logprobs: Option<usize>,
    /// What to do when the context is full.
    pub when_full: WhenFull,
    /// Whose it is: what it may find computed, and what becomes of what it computes.
    pub whose: Whose,
}

/// How a token is chosen. The defaults and the order of the steps are Ollama's: penalties, top-k, typical-p, top-p, min-p,
/// temperature, draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// 0 takes the likeliest token.
    pub temperature: f32,
    /// Keep the k likeliest; 0 or less keeps all.
    pub top_k: i32,
    /// Keep the likeliest whose probabilities sum to this (Holtzman et al., arXiv 1904.09751); 1 keeps all.
    pub top_p: f32,
    /// Drop what is less likely than this fraction of the likeliest; 0 drops nothing.
    pub min_p: f32,
    /// Keep what is closest to the expected surprise (Meister et al., arXiv 2202.00666); 1 keeps all.
    pub typical_p: f32,
    /// Recent tokens that penalties look at; 0 switches them off, negative means the whole context.
    pub repeat_last_n: i32,
    /// Divides positive and multiplies negative logits of recent tokens (Keskar et al., arXiv 1909.05858); 1 changes nothing.
    pub repeat_penalty: f32,
    /// Subtracted from the logit of a recent token.
    pub presence_penalty: f32,
    /// Subtracted for each time that a recent token occurs.
    pub frequency_penalty: f32,
    /// Fixes the draw. Without one, a request draws its own.
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

/// What a request sends back.
#[derive(Clone, Debug)]
pub enum Event {
    /// The next piece of text.
    Text(Text),
    /// The context is full, and a shorter prompt is wanted.
    Full(Full),
    /// The end; nothing follows.
    Done(Finish),
    /// It failed; nothing follows.
    Failed(GenerateError),
}

/// A piece of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text {
    /// Whole characters, stop texts already taken out; empty only where a token has no text.
    pub text: String,
    /// Of the tokens whose text ends here, where they were asked for.
    pub logprobs: Vec<Logprob>,
    /// What the request has taken up to here: all that is known of one that is given up before its end.
    pub spent: Spent,
}

/// What a request has taken so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// The whole prompt, cached or not.
    pub prompt_tokens: usize,
    /// Of these, how many were not computed because a cache held them.
    pub cached_tokens: usize,
    /// Where those came from that had left the page pool.
    pub recalled: Recalls,
    /// Time spent on the prompt tokens that were computed.
    pub prompt_ns: u64,
    /// Tokens generated.
    pub eval_tokens: usize,
    /// Time spent on them.
    pub eval_ns: u64,
}

/// How likely a token of an answer was.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprob {
    /// The token.
    pub chosen: Likely,
    /// The likeliest at its place, the likeliest first.
    pub top: Vec<Likely>,
}

/// A token and how likely it is by the model's own logits, before penalties, filters and temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct Likely {
    /// The token's id.
    pub token: u32,
    /// Its text, which may end within a character.
    pub bytes: Vec<u8>,
    /// The natural logarithm of its probability. A token that cannot be has [`IMPOSSIBLE`].
    pub logprob: f64,
}

/// Stands for the logarithm of zero, which JSON cannot have. The number is OpenAI's.
pub const IMPOSSIBLE: f64 = -9999.0;

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it, or a stop text came.
    Stop,
    /// The token limit or the context's end was reached.
    Length,
}

/// An answer's measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// Why it ended.
    pub reason: FinishReason,
    /// What it has taken, all in all.
    pub spent: Spent,
    /// The generated token ids.
    pub tokens: Vec<u32>,
    /// Tokens that were forgotten while it was being computed, without a new prompt.
    pub forgotten_tokens: usize,
}

/// Prompt tokens that came back from the tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recalls {
    /// Tokens from host memory.
    pub ram_tokens: usize,
    /// Tokens from this machine's disk.
    pub ssd_tokens: usize,
    /// Tokens from the remote tier.
    pub remote_tokens: usize,
    /// Time from the lookup to the last chunk.
    pub ns: u64,
    /// What computing these tokens would have taken, by what computing has taken lately.
    pub recompute_ns: u64,
    /// Prompt tokens that were computed after all, by why. The last one, which always is, does not count.
    pub recomputed: Recomputed,
}

/// Why a request failed after it had been accepted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum GenerateError {
    /// Nothing to compute.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt leaves no room for an answer.
    #[error("the prompt has {prompt_tokens} tokens, and the context has room for {context_tokens}")]
    PromptTooLong {
        /// Tokens in the prompt.
        prompt_tokens: usize,
        /// Tokens that the context holds.
        context_tokens: usize,
    },
    /// The prompt has a token that the model does not know.
    #[error("the prompt has token {token}, and the model's vocabulary has {vocabulary}")]
    UnknownToken {
        /// The token.
        token: u32,
        /// Tokens that the model knows.
        vocabulary: usize,
    },
    /// No page is left, and none can be evicted.
    #[error("KV cache memory is full: {0}")]
    CacheFull(String),
    /// The file under the mapping changed.
    #[error("{0}; the model was unloaded, load it again once the file is whole")]
    ModelVanished(String),
    /// The backend refused a step.
    #[error("computation failed: {0}")]
    Backend(String),
    /// The scheduler thread ended.
    #[error("the model was unloaded while the answer was being computed")]
    Unloaded,
}
