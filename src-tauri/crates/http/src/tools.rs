//! Which tools a request offers, for the APIs of OpenAI and Anthropic, and arguments of earlier calls.

use cairn_app::inference::ToolUse;
use cairn_wire::excerpt;
use serde_json::{Value, json};

use crate::error::ApiError;

/// Which tools the model sees, and whether it must call one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    Auto,
    None,
    Required,
    /// Only these tools.
    Named {
        names: Vec<String>,
        is_required: bool,
    },
}

/// A tool of a request.
pub(crate) struct NamedTool {
    pub(crate) name: String,
    /// In the format of OpenAI's API.
    pub(crate) value: Value,
}

/// Returns the tools that the model sees, and how it must use them.
pub(crate) fn offered(
    tools: Vec<NamedTool>,
    choice: ToolChoice,
    is_single: bool,
) -> Result<(Vec<Value>, ToolUse), ApiError> {
    let (names, is_required) = match choice {
        ToolChoice::None => return Ok((Vec::new(), ToolUse::default())),
        ToolChoice::Auto => (None, false),
        ToolChoice::Required => (None, true),
        ToolChoice::Named { names, is_required } => (Some(names), is_required),
    };
    if let Some(missing) = names.iter().flatten().find(|name| tools.iter().all(|tool| tool.name != **name)) {
        return Err(ApiError::bad_request(format!("tool_choice names {:?}, which is not in tools", excerpt(missing))));
    }
    let is_offered = |tool: &NamedTool| names.as_ref().is_none_or(|names| names.contains(&tool.name));
    let tools: Vec<Value> = tools.into_iter().filter(is_offered).map(|tool| tool.value).collect();
    match is_required && tools.is_empty() {
        true if names.is_some() => Err(none_allowed()),
        true => Err(ApiError::bad_request("tool_choice requires a call, and the request has no tools")),
        false => Ok((tools, ToolUse { is_required, is_single })),
    }
}

/// Returns the arguments of an earlier call. None are those of a function without parameters.
pub(crate) fn arguments(arguments: Value, tool: &str) -> Result<Value, ApiError> {
    match arguments {
        Value::Null => Ok(json!({})),
        Value::Object(_) => Ok(arguments),
        _ => Err(invalid_arguments(tool, "a JSON object")),
    }
}

/// Returns the error for arguments of an earlier call of `tool` that are not `expected`.
pub(crate) fn invalid_arguments(tool: &str, expected: &str) -> ApiError {
    ApiError::bad_request(format!("invalid tool call arguments: those of {:?} must be {expected}", excerpt(tool)))
}

/// Returns the error for a required call if all tools that are allowed are ignored.
pub(crate) fn none_allowed() -> ApiError {
    ApiError::bad_request("tool_choice requires a call, and allows none of the tools that this server accepts")
}
