//! `POST /api/embed` and its predecessor `POST /api/embeddings`: vectors of texts.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::KeepAlive;

/// Request for the vectors of texts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct EmbedRequest {
    /// The model's name.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub model: String,
    /// A text or a list of texts. The model is loaded if it is empty.
    pub input: Value,
    /// Whether texts that do not fit are cut; true if absent.
    pub truncate: Option<bool>,
    /// Elements of each vector; all if absent or 0.
    pub dimensions: Option<i64>,
    /// How long the model stays loaded afterwards.
    pub keep_alive: Option<KeepAlive>,
    /// Options by name.
    pub options: Option<Map<String, Value>>,
}

/// Vectors of length 1, in the order of the texts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct EmbedResponse {
    pub model: String,
    pub embeddings: Vec<Vec<f32>>,
    pub total_duration: u64,
    pub load_duration: u64,
    pub prompt_eval_count: u64,
}

/// Request for the vector of one text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct EmbeddingsRequest {
    /// The model's name.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub model: String,
    /// The text. The model is loaded if it is empty.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub prompt: String,
    /// How long the model stays loaded afterwards.
    pub keep_alive: Option<KeepAlive>,
    /// Options by name.
    pub options: Option<Map<String, Value>>,
}

/// The vector of one text; empty for an empty text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EmbeddingsResponse {
    /// The vector.
    pub embedding: Vec<f32>,
}
