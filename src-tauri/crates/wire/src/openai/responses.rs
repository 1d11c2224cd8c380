//! `POST /v1/responses`: the next items of a conversation. Nothing is stored, so a request has the whole conversation.

mod events;
mod items;

pub use events::{ItemPlace, PartPlace, ResponseEvent, SequencedEvent};
pub use items::{InputItem, InputItems, ItemStatus, OutputItem, OutputPart};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{PromptTokensDetails, Reasoning, ServiceTier, ToolFunction};

/// Request for the next items.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct ResponsesRequest {
    pub model: String,
    pub input: Option<InputItems>,
    pub instructions: Option<String>,
    pub stream: Option<bool>,
    pub max_output_tokens: Option<i64>,
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub reasoning: Option<Reasoning>,
    pub text: Option<TextOptions>,
    pub tools: Option<Vec<ResponseTool>>,
    /// `none`, `auto`, `required`, or an object that names functions.
    pub tool_choice: Option<Value>,
    pub parallel_tool_calls: Option<bool>,
    /// `message.output_text.logprobs` returns log probabilities.
    pub include: Option<Vec<String>>,
    pub top_logprobs: Option<i64>,
    /// `disabled` refuses a conversation that does not fit.
    pub truncation: Option<String>,
    pub store: Option<bool>,
    pub previous_response_id: Option<String>,
    pub conversation: Option<Value>,
    pub background: Option<bool>,
    pub metadata: Option<Map<String, Value>>,
    pub max_tool_calls: Option<Value>,
    pub prompt: Option<Value>,
    pub prompt_cache_key: Option<Value>,
    pub safety_identifier: Option<Value>,
    /// `flex` computes the answer when others leave time. All other values are the same as none.
    pub service_tier: Option<String>,
    pub user: Option<Value>,
    /// Cairn's own field: Ollama's options, such as `num_ctx` and `top_k`. The fields above override them.
    pub options: Option<Map<String, Value>>,
}

impl ResponsesRequest {
    /// Returns the names of the fields that have no effect.
    #[must_use]
    pub fn ignored(&self) -> Vec<&'static str> {
        let fields = [
            ("max_tool_calls", &self.max_tool_calls),
            ("prompt", &self.prompt),
            ("prompt_cache_key", &self.prompt_cache_key),
            ("safety_identifier", &self.safety_identifier),
            ("user", &self.user),
        ];
        let mut names = super::present(&fields);
        if self.store == Some(true) {
            names.push("store");
        }
        names
    }
}

/// Options of the text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = r#"text as a JSON object such as {"format": {"type": "json_object"}}"#)]
pub struct TextOptions {
    /// Format of the text.
    pub format: TextFormat,
}

/// Format of the text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = r#"text.format as {"type": "json_object"} or {"type": "json_schema", "schema": {...}}"#)]
pub struct TextFormat {
    /// `text`, `json_object` or `json_schema`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name of the schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The schema of `json_schema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Whether the text must match the schema; it does in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

impl Default for TextFormat {
    fn default() -> Self {
        Self { kind: "text".to_owned(), name: None, schema: None, strict: None }
    }
}

/// A tool that the model may call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a tool, which is a JSON object")]
pub struct ResponseTool {
    /// `function`, or `namespace` for a group of functions. Types of tools that OpenAI's servers run are ignored.
    #[serde(rename = "type")]
    pub kind: String,
    /// The functions of a namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ResponseTool>,
    /// The function, or the name and the description of a namespace.
    #[serde(flatten)]
    pub function: ToolFunction,
}

/// A response. At the start of a stream it has no output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct ResponseObject {
    pub id: String,
    /// `response`
    pub object: String,
    pub created_at: i64,
    pub status: ResponseStatus,
    pub background: bool,
    pub error: Option<ResponseError>,
    pub incomplete_details: Option<IncompleteDetails>,
    pub instructions: Option<String>,
    pub max_output_tokens: Option<i64>,
    pub model: String,
    pub output: Vec<OutputItem>,
    pub parallel_tool_calls: bool,
    /// Always absent.
    pub previous_response_id: Option<String>,
    pub reasoning: Reasoning,
    /// Always false.
    pub store: bool,
    /// Only if the request has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<ServiceTier>,
    pub temperature: f32,
    pub text: TextOptions,
    pub tool_choice: Value,
    pub tools: Vec<ResponseTool>,
    pub top_p: f32,
    pub truncation: String,
    pub usage: Option<ResponseUsage>,
    pub metadata: Map<String, Value>,
    /// Cairn's own field: what the request has and the server ignored, and what did not fit into the context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// State of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is named after its text")]
pub enum ResponseStatus {
    InProgress,
    Completed,
    Incomplete,
    Failed,
}

/// Why a response failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseError {
    /// Always `server_error`.
    pub code: String,
    /// What went wrong, in English.
    pub message: String,
}

/// Why a response is incomplete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncompleteDetails {
    /// Always `max_output_tokens`.
    pub reason: String,
}

/// Token counts of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseUsage {
    /// Tokens of the prompt, cached or not.
    pub input_tokens: u64,
    /// Details of the prompt.
    pub input_tokens_details: PromptTokensDetails,
    /// Generated tokens.
    pub output_tokens: u64,
    /// Details of the answer.
    pub output_tokens_details: OutputTokensDetails,
    /// The sum of both.
    pub total_tokens: u64,
}

/// Details of an answer's tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputTokensDetails {
    /// Tokens of the reasoning.
    pub reasoning_tokens: u64,
}
