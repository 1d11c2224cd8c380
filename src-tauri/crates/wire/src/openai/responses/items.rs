//! Items of a conversation: messages, reasoning, calls and their results.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::openai::{Content, ContentPart, TokenLogprob};
use crate::text_or_list::text_or_list;

/// The conversation: a text of the user, or a list of items.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum InputItems {
    /// A text of the user.
    Text(String),
    /// Items.
    List(Vec<InputItem>),
}

text_or_list!(InputItems, Self::Text, Self::List, InputItem, "input, which is a text or a list of items");

/// An item, as clients send it. Which fields it has depends on its type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "an item of the input, which is a JSON object")]
pub struct InputItem {
    /// `message`, `function_call`, `function_call_output` or `reasoning`; absent for a message.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Author of a message.
    pub role: Option<String>,
    /// Content of a message, or the reasoning.
    pub content: Option<Content>,
    /// Summary of the reasoning.
    pub summary: Option<Vec<ContentPart>>,
    /// Id of a call.
    pub call_id: Option<String>,
    /// Namespace of the function of a call.
    pub namespace: Option<String>,
    /// Name of the function of a call.
    pub name: Option<String>,
    /// Arguments of a call, as the text of a JSON object.
    pub arguments: Option<String>,
    /// Result of a call.
    pub output: Option<Content>,
}

/// An item of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub enum OutputItem {
    /// The model's text.
    Message { id: String, status: ItemStatus, role: String, content: Vec<OutputPart> },
    /// The reasoning before it. `summary` is always empty: local reasoning is sent itself.
    Reasoning { id: String, status: ItemStatus, summary: Vec<Value>, content: Vec<OutputPart> },
    /// A call of a function.
    FunctionCall {
        id: String,
        status: ItemStatus,
        call_id: String,
        /// Only if the function is in a namespace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        name: String,
        arguments: String,
    },
}

/// State of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is named after its text")]
pub enum ItemStatus {
    InProgress,
    Completed,
    Incomplete,
}

/// A part of an item's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the API's own and mean what its reference documents")]
pub enum OutputPart {
    /// A text. `annotations` is always empty.
    OutputText { text: String, annotations: Vec<Value>, logprobs: Vec<TokenLogprob> },
    /// Reasoning.
    ReasoningText { text: String },
}
