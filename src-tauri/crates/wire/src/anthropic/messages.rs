//! `POST /v1/messages`: the next message of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text_or_list::text_or_list;

/// Request for the next message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct MessagesRequest {
    pub model: String,
    pub max_tokens: Option<i64>,
    pub messages: Vec<Message>,
    pub system: Option<Blocks>,
    pub stream: Option<bool>,
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub top_k: Option<i64>,
    pub stop_sequences: Option<Vec<String>>,
    pub thinking: Option<Thinking>,
    pub output_config: Option<OutputConfig>,
    pub tools: Option<Vec<Tool>>,
    /// `{"type": "auto" | "any" | "tool" | "none", "name": "..."}`
    pub tool_choice: Option<Value>,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a message, which is a JSON object")]
pub struct Message {
    /// Its author.
    pub role: Role,
    /// The text, or blocks.
    pub content: Blocks,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "each is named after its text")]
pub enum Role {
    User,
    Assistant,
    System,
}

/// A text, or a list of blocks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Blocks {
    /// A text.
    Text(String),
    /// Blocks.
    List(Vec<Block>),
}

text_or_list!(Blocks, Self::Text, Self::List, Block, "a text or a list of content blocks");

/// A block of a message, as clients send it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// Where the image is.
        source: ImageSource,
    },
    /// Reasoning of an earlier answer.
    Thinking {
        /// The reasoning.
        thinking: String,
    },
    /// Encrypted reasoning of another model; ignored.
    RedactedThinking {},
    /// A tool call of an earlier answer.
    ToolUse {
        /// Id of the call.
        id: String,
        /// Name of the tool.
        name: String,
        /// The arguments, an object.
        input: Value,
    },
    /// The result of a tool call.
    ToolResult {
        /// Id of the call.
        tool_use_id: String,
        /// The result.
        #[serde(default)]
        content: Option<Blocks>,
        /// Whether the call failed.
        #[serde(default)]
        is_error: Option<bool>,
    },
}

/// Where an image is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "the source of an image, which is a JSON object")]
pub struct ImageSource {
    /// `base64` or `url`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `image/png` or another type.
    pub media_type: String,
    /// The image in base64.
    pub data: String,
}

/// Whether the model reasons first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = r#"thinking as a JSON object such as {"type": "enabled"}"#)]
pub struct Thinking {
    /// `enabled`, `disabled` or `adaptive`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Options of the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "output_config, which is a JSON object")]
pub struct OutputConfig {
    /// How much the model reasons: `low`, `medium`, `high`, `xhigh` or `max`.
    pub effort: Option<String>,
    /// The format of the answer; any text without it.
    pub format: Option<OutputFormat>,
}

/// A format of the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = r#"output_config.format as {"type": "json_schema", "schema": {...}}"#)]
pub struct OutputFormat {
    /// `json_schema`
    #[serde(rename = "type")]
    pub kind: String,
    /// The schema.
    pub schema: Option<Value>,
}

/// A tool that the model may call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a tool, which is a JSON object")]
pub struct Tool {
    /// Absent or `custom` for a tool of the client; other types are tools of Anthropic's servers.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of the tool.
    pub name: String,
    /// What the tool does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
}

impl Tool {
    /// Whether the client runs the tool.
    #[must_use]
    pub fn is_of_client(&self) -> bool {
        self.kind.as_deref().is_none_or(|kind| kind == "custom")
    }
}

/// A complete response; without content at the start of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct MessageResponse {
    pub id: String,
    /// `message`
    #[serde(rename = "type")]
    pub kind: String,
    pub role: Role,
    pub model: String,
    pub content: Vec<ResponseBlock>,
    pub stop_reason: Option<StopReason>,
    pub stop_sequence: Option<String>,
    pub usage: Usage,
}

/// A block of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseBlock {
    /// Reasoning before the text.
    Thinking {
        /// The reasoning.
        thinking: String,
        /// Always empty: local reasoning is not signed.
        signature: String,
    },
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// A tool call.
    ToolUse {
        /// Id of the call.
        id: String,
        /// Name of the tool.
        name: String,
        /// The arguments, an object.
        input: Value,
    },
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model generated an end token.
    EndTurn,
    /// The token limit or the end of the context was reached.
    MaxTokens,
    /// A stop sequence of the request occurred.
    StopSequence,
    /// The model calls tools.
    ToolUse,
}

/// Token counts of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt that were computed.
    pub input_tokens: u64,
    /// Always 0: every prompt is cached, at no cost.
    pub cache_creation_input_tokens: u64,
    /// Tokens of the prompt that were not computed, because their rows were cached.
    pub cache_read_input_tokens: u64,
    /// Generated tokens.
    pub output_tokens: u64,
}

/// Response of `POST /v1/messages/count_tokens`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCount {
    /// Tokens of the prompt.
    pub input_tokens: u64,
}
