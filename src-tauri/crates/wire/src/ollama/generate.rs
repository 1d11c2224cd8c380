//! `POST /api/generate`: computes the answer to one prompt.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{DebugInfo, DoneReason, Logprob, Metrics};
use crate::{KeepAlive, Think, Timestamp, Truncated};

/// Request for an answer. Unsupported fields are read too, so that they can be refused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct GenerateRequest {
    #[serde(deserialize_with = "super::null_is_empty")]
    pub model: String,
    #[serde(deserialize_with = "super::null_is_empty")]
    pub prompt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Token ids of an earlier answer to continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<i64>>,
    /// Stream one JSON object per delta; on if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive: Option<KeepAlive>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncate: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<i64>,
    /// Return the rendered prompt instead of an answer.
    #[serde(rename = "_debug_render_only", skip_serializing_if = "Option::is_none")]
    pub debug_render_only: Option<bool>,
}

/// A delta of the answer, or the whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct GenerateChunk {
    pub model: String,
    pub created_at: Timestamp,
    pub response: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    pub done: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_reason: Option<DoneReason>,
    /// Token ids of the prompt and the answer, for the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<u32>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<Logprob>,
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Cairn's own field: what was left out because the context was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
    /// Cairn's own field: what the request has and the server ignored, and what did not fit into the context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    #[serde(default, rename = "_debug_info", skip_serializing_if = "Option::is_none")]
    pub debug_info: Option<DebugInfo>,
}
