//! `POST /api/show`: all information about one model.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Details, Message};
use crate::Timestamp;

/// Request for information about a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct ShowRequest {
    /// The model's name.
    #[serde(deserialize_with = "super::null_is_empty")]
    pub model: String,
    /// Name of `model` in older clients.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "super::null_is_empty")]
    pub name: String,
    /// Include the elements of arrays, for example vocabularies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbose: Option<bool>,
}

/// All information about one model. Absent texts are omitted.
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
    /// Language of the template, and the reason of its choice. Cairn's own field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub template_reason: String,
    /// Why chats with the model fail because of its template. Cairn's own field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_problem: Option<String>,
    /// Why the model cannot see images although it has a vision tower. Cairn's own field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vision_problem: Option<String>,
    /// Whether the model has no chat template: it gets the plain texts and continues them. Cairn's own field.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continues_text: bool,
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
    /// Origin of a model that is not in a library. Cairn's own field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

/// One tensor of a model's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShowTensor {
    /// Name of the tensor.
    pub name: String,
    /// Type of the tensor, for example `Q4_K`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Dimensions, the fastest one first, as in GGUF.
    pub shape: Vec<u64>,
}
