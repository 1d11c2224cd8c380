//! Converts tools and tool calls of the OpenAI API.

use cairn_app::inference::ToolCall;
use cairn_wire::openai::{self as wire, FunctionCall, Tool};
use serde_json::Value;

use crate::error::ApiError;

/// Returns the tools that the model sees: all, none, or the one that `tool_choice` names.
pub(super) fn offered(tools: Vec<Tool>, choice: Option<&Value>) -> Result<Vec<Value>, ApiError> {
    let invalid = |text: String| Err(ApiError::bad_request(text));
    if let Some(tool) = tools.iter().find(|tool| tool.kind != "function" || tool.function.name.is_empty()) {
        return invalid(format!("a tool has the type {:?} or no name; this server accepts named functions", tool.kind));
    }
    let named = |name: &str| tools.iter().filter(|tool| tool.function.name == name).map(value).collect::<Vec<_>>();
    match choice {
        None | Some(Value::Null) => Ok(tools.iter().map(value).collect()),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => Ok(tools.iter().map(value).collect()),
            "none" => Ok(Vec::new()),
            "required" => invalid("tool_choice \"required\" is not supported yet; use \"auto\"".to_owned()),
            other => invalid(format!("invalid tool_choice: {other:?}")),
        },
        Some(choice) => match choice["function"]["name"].as_str() {
            Some(name) => match named(name) {
                tools if tools.is_empty() => invalid(format!("tool_choice names {name:?}, which is not in tools")),
                tools => Ok(tools),
            },
            None => invalid("invalid tool_choice: it must be a word or name a function".to_owned()),
        },
    }
}

fn value(tool: &Tool) -> Value {
    serde_json::to_value(tool).expect("wire types have string keys and finite numbers")
}

/// Converts a call of the model. `index` is its place in a streamed answer.
pub(super) fn call(call: ToolCall, index: Option<u32>) -> wire::ToolCall {
    wire::ToolCall {
        index,
        id: call.id.unwrap_or_default(),
        kind: "function".to_owned(),
        function: FunctionCall { name: call.name, arguments: call.arguments.to_string() },
    }
}
