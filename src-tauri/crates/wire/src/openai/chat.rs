//! `POST /v1/chat/completions`: the next message of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ChatMessage, ChoiceLogprobs, FinishReason, ServiceTier, Stop, Tool, ToolCall, Usage};

/// Request for the next message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct ChatCompletionRequest {
    pub model: String,
    pub messages: Vec<ChatMessage>,
    pub stream: Option<bool>,
    pub stream_options: Option<StreamOptions>,
    /// The older name of `max_completion_tokens`.
    pub max_tokens: Option<i64>,
    pub max_completion_tokens: Option<i64>,
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub seed: Option<i64>,
    pub stop: Option<Stop>,
    pub frequency_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub n: Option<u32>,
    pub logprobs: Option<bool>,
    pub top_logprobs: Option<i64>,
    pub response_format: Option<ResponseFormat>,
    /// Formats that are extensions of the API, with vLLM's names.
    pub structured_outputs: Option<StructuredOutputs>,
    pub guided_json: Option<Value>,
    pub guided_regex: Option<String>,
    pub guided_choice: Option<Vec<String>>,
    pub guided_grammar: Option<String>,
    pub reasoning_effort: Option<String>,
    pub reasoning: Option<Reasoning>,
    pub tools: Option<Vec<Tool>>,
    /// `none`, `auto`, `required`, or an object that names a function.
    pub tool_choice: Option<Value>,
    pub parallel_tool_calls: Option<bool>,
    pub logit_bias: Option<Value>,
    pub metadata: Option<Value>,
    pub prediction: Option<Value>,
    pub prompt_cache_key: Option<Value>,
    pub safety_identifier: Option<Value>,
    /// `flex` computes the answer when others leave time. All other values are the same as none.
    pub service_tier: Option<String>,
    pub store: Option<Value>,
    pub user: Option<Value>,
    pub verbosity: Option<Value>,
    pub web_search_options: Option<Value>,
    /// Cairn's own field: Ollama's options, such as `num_ctx` and `top_k`. The fields above override them.
    pub options: Option<Map<String, Value>>,
}

impl ChatCompletionRequest {
    /// Returns the names of the fields that have no effect.
    #[must_use]
    pub fn ignored(&self) -> Vec<&'static str> {
        let fields = [
            ("logit_bias", &self.logit_bias),
            ("metadata", &self.metadata),
            ("prediction", &self.prediction),
            ("prompt_cache_key", &self.prompt_cache_key),
            ("safety_identifier", &self.safety_identifier),
            ("store", &self.store),
            ("user", &self.user),
            ("verbosity", &self.verbosity),
            ("web_search_options", &self.web_search_options),
        ];
        super::present(&fields)
    }
}

/// A format of the answer. Only one of them can be used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "structured_outputs, which is a JSON object")]
pub struct StructuredOutputs {
    /// A JSON Schema, or its text.
    pub json: Option<Value>,
    /// A regular expression that the whole answer matches.
    pub regex: Option<String>,
    /// The possible answers.
    pub choice: Option<Vec<String>>,
    /// A grammar in Lark's syntax.
    pub grammar: Option<String>,
}

/// Options of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "stream_options, which is a JSON object")]
pub struct StreamOptions {
    /// Send the usage as the last chunk.
    pub include_usage: bool,
}

/// How much the model reasons.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = r#"reasoning as a JSON object such as {"effort": "low"}"#)]
pub struct Reasoning {
    /// `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`.
    pub effort: Option<String>,
    /// How the reasoning is summarised; ignored: it is sent as it is.
    pub summary: Option<String>,
}

/// Format of the answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(
    default,
    expecting = r#"response_format as {"type": "json_object"} or {"type": "json_schema", "json_schema": {"schema": {...}}}"#
)]
pub struct ResponseFormat {
    /// `text`, `json_object` or `json_schema`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The schema of `json_schema`.
    pub json_schema: Option<JsonSchema>,
}

/// A named JSON Schema.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = r#"json_schema as a JSON object such as {"schema": {...}}"#)]
pub struct JsonSchema {
    /// Name of the schema.
    pub name: String,
    /// The schema.
    pub schema: Option<Value>,
    /// Whether the answer must match the schema; it does in any case.
    pub strict: Option<bool>,
}

/// A complete response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct ChatCompletion {
    pub id: String,
    /// `chat.completion`
    pub object: String,
    pub created: i64,
    pub model: String,
    pub system_fingerprint: String,
    /// Only if the request has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<ServiceTier>,
    pub choices: Vec<Choice>,
    pub usage: Usage,
    /// Cairn's own field: what the request has and the server ignored, and what did not fit into the context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One of the answers of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct Choice {
    pub index: u32,
    pub message: ReplyMessage,
    pub logprobs: Option<ChoiceLogprobs>,
    pub finish_reason: FinishReason,
}

/// The model's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct ReplyMessage {
    pub role: String,
    /// The text; absent if the model only calls tools.
    pub content: Option<String>,
    /// The reasoning before the text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

/// A part of a streamed response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct ChatCompletionChunk {
    pub id: String,
    /// `chat.completion.chunk`
    pub object: String,
    pub created: i64,
    pub model: String,
    pub system_fingerprint: String,
    /// Only if the request has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<ServiceTier>,
    /// Empty in the chunk with the usage.
    pub choices: Vec<ChunkChoice>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Cairn's own field: what the request has and the server ignored, and what did not fit into the context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A part of one of the answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct ChunkChoice {
    pub index: u32,
    pub delta: ChatDelta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<ChoiceLogprobs>,
    pub finish_reason: Option<FinishReason>,
}

/// New parts of the model's message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct ChatDelta {
    /// Only in the first chunk of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}
