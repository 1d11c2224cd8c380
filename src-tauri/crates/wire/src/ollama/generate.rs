//! `POST /api/generate`: one prompt, one answer.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{DebugInfo, DoneReason, Logprob, Metrics, Truncated};
use crate::{KeepAlive, Think, Timestamp};

/// What is asked for. Fields that this version does not know how to honour are read too, so that it can say so.
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
    /// Tokens of an earlier answer, to go on from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<i64>>,
    /// One JSON object per piece of the answer; on when absent.
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
    /// Whether only the prompt's text is wanted, and no answer.
    #[serde(rename = "_debug_render_only", skip_serializing_if = "Option::is_none")]
    pub debug_render_only: Option<bool>,
}

/// A piece of the answer, or the whole of it.
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
    /// Tokens of the prompt and of the answer, to be sent back with the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<u32>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<Logprob>,
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Ours: what did not fit into the context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
    #[serde(default, rename = "_debug_info", skip_serializing_if = "Option::is_none")]
    pub debug_info: Option<DebugInfo>,
}
