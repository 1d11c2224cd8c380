//! Converts tools and tool calls of the OpenAI API.

use cairn_app::inference::{ToolCall, ToolUse};
use cairn_wire::excerpt;
use cairn_wire::openai::{self as wire, FunctionCall, Tool};
use serde_json::Value;

use crate::error::ApiError;
use crate::tools::{NamedTool, ToolChoice};

/// Returns the tools that the model sees, and how it must use them.
pub(super) fn offered(
    tools: Vec<Tool>,
    choice: Option<&Value>,
    is_parallel: Option<bool>,
) -> Result<(Vec<Value>, ToolUse), ApiError> {
    if let Some(tool) = tools.iter().find(|tool| tool.kind != "function" || tool.function.name.is_empty()) {
        let kind = excerpt(&tool.kind);
        let text = format!("a tool has the type {kind:?} or no name; this server accepts named functions");
        return Err(ApiError::bad_request(text));
    }
    let named = |tool: Tool| {
        let value = serde_json::to_value(&tool).expect("wire types have string keys and finite numbers");
        NamedTool { name: tool.function.name, value }
    };
    let tools = tools.into_iter().map(named).collect();
    crate::tools::offered(tools, self::choice(choice)?, is_parallel == Some(false))
}

/// Reads `tool_choice`: a word, or an object that names functions.
fn choice(choice: Option<&Value>) -> Result<ToolChoice, ApiError> {
    let invalid = || ApiError::bad_request("invalid tool_choice: it must be a word or name a function");
    // The endpoint of responses has no objects around names.
    let name = |entry: &Value| {
        let name = entry["function"]["name"].as_str().or_else(|| entry["name"].as_str());
        name.map(str::to_owned).ok_or_else(invalid)
    };
    match choice {
        None | Some(Value::Null) => Ok(ToolChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" => Ok(ToolChoice::Required),
            other => Err(ApiError::bad_request(format!("invalid tool_choice: {:?}", excerpt(other)))),
        },
        Some(choice) if choice["type"] == "allowed_tools" => {
            let allowed = choice.get("allowed_tools").unwrap_or(choice);
            let names = allowed["tools"].as_array().ok_or_else(invalid)?.iter().map(name).collect::<Result<_, _>>()?;
            Ok(ToolChoice::Named { names, is_required: allowed["mode"] == "required" })
        }
        Some(choice) => Ok(ToolChoice::Named { names: vec![name(choice)?], is_required: true }),
    }
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
