//! `POST /api/show`: all about one model.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Details, Message};
use crate::Timestamp;

/// Which model, and how much about it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct ShowRequest {
    /// The model's name.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub model: String,
    /// The same, as older clients call it.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "super::null_is_empty")]
    pub name: String,
    /// With the contents of arrays, vocabularies above all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbose: Option<bool>,
}

/// All about one model. Texts that there are none of are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct ShowResponse {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub license: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub modelfile: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub parameters: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub template: String,
    /// The template's language, and why it is this one where there are more. Ours: Ollama has no such field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub template_reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system: String,
    pub details: Details,
    /// Messages that precede every conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    #[serde(default)]
    pub model_info: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensors: Vec<ShowTensor>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    pub modified_at: Timestamp,
    /// Where the model comes from, when it is not from a library. Ours: Ollama has no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// One tensor of a model's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShowTensor {
    /// Its name.
    pub name: String,
    /// Its type, `Q4_K` for instance.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its dimensions, the fastest one first, as GGUF has them.
    pub shape: Vec<u64>,
}
