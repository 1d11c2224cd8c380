//! How likely each token of an answer was, and which other tokens could have been in its place.

use serde::{Deserialize, Serialize};

/// A token of an answer, with its natural logarithm of probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Logprob {
    /// The token itself.
    #[serde(flatten)]
    pub token: TokenLogprob,
    /// The likeliest tokens at its place, the likeliest first; absent unless they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub top_logprobs: Vec<TokenLogprob>,
}

/// A token and its natural logarithm of probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// Its text; what is no character by itself is replaced by U+FFFD.
    pub token: String,
    /// The logarithm of its probability, before temperature and filters.
    pub logprob: f64,
    /// The bytes of its text, which may end within a character.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bytes: Vec<u8>,
}
