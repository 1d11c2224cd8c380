//! `POST /api/chat`: the next message of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{DebugInfo, DoneReason, Logprob, Metrics};
use crate::{KeepAlive, Think, Timestamp, Truncated};

/// Request for the next message. Unsupported fields are read too, so that they can be refused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct ChatRequest {
    #[serde(deserialize_with = "super::null_is_empty")]
    pub model: String,
    #[serde(deserialize_with = "super::null_is_empty")]
    pub messages: Vec<Message>,
    /// Stream one JSON object per delta; on if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_alive: Option<KeepAlive>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Value>>,
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

/// A message of a conversation, as clients send it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a message, which is a JSON object")]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct Message {
    #[serde(deserialize_with = "super::null_is_empty")]
    pub role: String,
    #[serde(deserialize_with = "super::null_is_empty")]
    pub content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// A delta of the answer, or the whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct ChatChunk {
    pub model: String,
    pub created_at: Timestamp,
    pub message: ReplyMessage,
    pub done: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_reason: Option<DoneReason>,
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

/// The message inside a [`ChatChunk`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the wire's own and mean what the Ollama API documents")]
pub struct ReplyMessage {
    pub role: String,
    pub content: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

/// A tool call of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a tool call, which is a JSON object")]
pub struct ToolCall {
    /// Id of the call. The tool's result may name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The function and its arguments.
    pub function: FunctionCall,
}

/// A function with arguments.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "the function of a tool call, which is a JSON object")]
pub struct FunctionCall {
    /// Place of the call in the answer.
    pub index: u32,
    /// Name of the function.
    pub name: String,
    /// The arguments, an object.
    pub arguments: Value,
}
