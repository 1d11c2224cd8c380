//! Messages of a conversation, as plain data.

use serde_json::{Map, Value, json};

/// One message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or what else a template knows.
    pub role: String,
    /// The text; empty where there is none.
    pub content: String,
    /// The reasoning that came before the text.
    pub thinking: Option<String>,
    /// The tools that the model called.
    pub tool_calls: Vec<ToolCall>,
    /// In a tool's answer, the tool.
    pub tool_name: Option<String>,
    /// In a tool's answer, the call that it answers.
    pub tool_call_id: Option<String>,
    /// Pictures that belong to the text.
    pub images: Vec<Image>,
}

/// A call of a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolCall {
    /// The caller's name for this call.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// What it is called with: an object by parameter name.
    pub arguments: Value,
}

/// A picture, as the bytes of its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// PNG, JPEG or another known format.
    pub bytes: Vec<u8>,
}

impl Message {
    /// A message of a role that says something.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into(), ..Message::default() }
    }

    /// The message as templates expect it: the keys of OpenAI's API, and reasoning under both names in use. Absent parts are
    /// absent keys, because templates ask `is defined`.
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
