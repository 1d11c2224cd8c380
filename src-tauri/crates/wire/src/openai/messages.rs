//! Messages and tools, as clients send them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text_or_list::text_or_list;

/// A message of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a message, which is a JSON object")]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub struct ChatMessage {
    pub role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The reasoning before an answer, under the names in use.
    #[serde(alias = "reasoning_content", skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// The content of a message: a text, or a list of parts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// A text.
    Text(String),
    /// Texts and images.
    Parts(Vec<ContentPart>),
}

text_or_list!(
    Content,
    Self::Text,
    Self::Parts,
    ContentPart,
    "the content of a message, which is a text or a list of parts"
);

/// A part of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a part of a message, which is a JSON object")]
pub struct ContentPart {
    /// `text`, `image_url` or another kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text of a part `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The image of a part `image_url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_url: Option<ImageUrl>,
}

/// The address of an image: a text, or an object with the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ImageUrl {
    /// A `data:` URL.
    Url(String),
    /// An object with the URL.
    Object {
        /// A `data:` URL.
        url: String,
    },
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a tool, which is a JSON object")]
pub struct Tool {
    /// `function`
    #[serde(rename = "type", default = "function")]
    pub kind: String,
    /// The function.
    pub function: ToolFunction,
}

/// A function that the model may call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "a function, which is a JSON object")]
pub struct ToolFunction {
    /// Name of the function.
    #[serde(default)]
    pub name: String,
    /// What the function does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// Whether the arguments must match the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

/// A tool call of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a tool call, which is a JSON object")]
pub struct ToolCall {
    /// Place of the call in the answer; only in streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Id of the call. The tool's result names it.
    pub id: String,
    /// `function`
    #[serde(rename = "type")]
    pub kind: String,
    /// The function and its arguments.
    pub function: FunctionCall,
}

/// A function with arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "the function of a tool call, which is a JSON object")]
pub struct FunctionCall {
    /// Name of the function.
    pub name: String,
    /// The arguments, as the text of a JSON object.
    pub arguments: String,
}

fn function() -> String {
    "function".to_owned()
}
