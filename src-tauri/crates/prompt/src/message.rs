//! Messages of a conversation, as plain data.

use serde_json::{Map, Value, json};

/// One message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or another role that the template supports.
    pub role: String,
    /// The text; may be empty.
    pub content: String,
    /// The reasoning that came before the text.
    pub thinking: Option<String>,
    /// The model's tool calls.
    pub tool_calls: Vec<ToolCall>,
    /// In a tool result: the name of the tool.
    pub tool_name: Option<String>,
    /// In a tool result: the id of the call.
    pub tool_call_id: Option<String>,
    /// Images attached to the message.
    pub images: Vec<Image>,
}

/// A tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The client's id of this call.
    pub id: Option<String>,
    /// The name of the tool.
    pub name: String,
    /// Arguments: an object with the parameter names as keys, in the model's order.
    pub arguments: Value,
}

/// An image file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// The bytes of the file, in PNG, JPEG or another supported format.
    pub bytes: Vec<u8>,
}

impl Message {
    /// Creates a message with a role and a text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into(), ..Message::default() }
    }

    /// Converts to the JSON that templates expect: the keys of OpenAI's API, and reasoning under both names in use.
    /// Missing values have no key, because templates test `is defined`.
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("role".to_owned(), json!(self.role));
        object.insert("content".to_owned(), json!(self.content));
        let mut optional = |key: &str, value: &Option<String>| {
            if let Some(value) = value {
                object.insert(key.to_owned(), json!(value));
            }
        };
        optional("reasoning_content", &self.thinking);
        optional("thinking", &self.thinking);
        optional("name", &self.tool_name);
        optional("tool_call_id", &self.tool_call_id);
        if !self.tool_calls.is_empty() {
            let calls = self.tool_calls.iter().map(ToolCall::to_json).collect();
            object.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        Value::Object(object)
    }
}

impl std::fmt::Display for ToolCall {
    /// Writes the call as JSON.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", json!({ "name": self.name, "arguments": self.arguments }))
    }
}

impl ToolCall {
    fn to_json(&self) -> Value {
        let mut object = Map::new();
        if let Some(id) = &self.id {
            object.insert("id".to_owned(), json!(id));
        }
        object.insert("type".to_owned(), json!("function"));
        object.insert("function".to_owned(), json!({ "name": self.name, "arguments": self.arguments }));
        Value::Object(object)
    }
}
