//! Log probabilities of an answer's tokens.

use serde::{Deserialize, Serialize};

/// Log probabilities of the tokens of a choice or of a chunk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChoiceLogprobs {
    /// The tokens, in order.
    pub content: Vec<TokenLogprob>,
}

/// A token of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// The token.
    #[serde(flatten)]
    pub token: TopLogprob,
    /// The most probable tokens at its place, most probable first; empty unless requested.
    pub top_logprobs: Vec<TopLogprob>,
}

/// A token and its natural log probability, before temperature and filters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopLogprob {
    /// Text of the token; incomplete characters are replaced by U+FFFD.
    pub token: String,
    /// Natural logarithm of its probability.
    pub logprob: f64,
    /// Bytes of the text, which may end within a character.
    pub bytes: Vec<u8>,
}
