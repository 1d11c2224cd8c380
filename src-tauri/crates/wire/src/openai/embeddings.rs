//! `POST /v1/embeddings`: vectors of texts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Request for the vectors of texts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct EmbeddingRequest {
    /// The model's name.
    pub model: String,
    /// A text, a list of texts, the token ids of a text, or a list of those.
    pub input: Value,
    /// `float` or `base64`: little-endian f32. `float` if absent.
    pub encoding_format: Option<String>,
    /// Elements of each vector; all if absent.
    pub dimensions: Option<i64>,
}

/// Vectors of length 1, in the order of the texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct EmbeddingList {
    /// `list`
    pub object: String,
    pub data: Vec<Embedding>,
    pub model: String,
    pub usage: InputUsage,
}

/// The vector of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct Embedding {
    /// `embedding`
    pub object: String,
    pub embedding: EmbeddingVector,
    pub index: usize,
}

/// A vector in one of the two formats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EmbeddingVector {
    /// Numbers.
    Float(Vec<f32>),
    /// Base64 of little-endian f32.
    Base64(String),
}

/// Token counts of a request without an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct InputUsage {
    pub prompt_tokens: u64,
    pub total_tokens: u64,
}
