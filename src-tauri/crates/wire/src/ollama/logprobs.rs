//! Log probabilities of an answer's tokens and of their alternatives.

use serde::{Deserialize, Serialize};

/// A token of an answer, with its log probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Logprob {
    /// The token.
    #[serde(flatten)]
    pub token: TokenLogprob,
    /// The most probable tokens at its place, most probable first; absent unless requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub top_logprobs: Vec<TokenLogprob>,
}

/// A token and its natural log probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// Text of the token; incomplete characters are replaced by U+FFFD.
    pub token: String,
    /// Natural logarithm of its probability, before temperature and filters.
    pub logprob: f64,
    /// Bytes of the text, which may end within a character.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bytes: Vec<u8>,
}
