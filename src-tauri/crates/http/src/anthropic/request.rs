//! Converts requests of the Anthropic API.

use std::collections::HashMap;

use cairn_app::inference::{Constraint, Image, Message, ToolCall, ToolUse};
use cairn_wire::anthropic::{Block, Blocks, ImageSource, MessagesRequest, Role, Tool};
use cairn_wire::{Level, Think, excerpt};
use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::images;
use crate::sampling::Sampling;
use crate::tools::{self, NamedTool, ToolChoice};

/// Returns Ollama's options of a request.
pub(super) fn options(request: &MessagesRequest) -> Map<String, Value> {
    let sampling = Sampling {
        max_tokens: request.max_tokens,
        temperature: request.temperature,
        top_p: request.top_p,
        top_k: request.top_k,
        stop: request.stop_sequences.clone(),
        ..Sampling::default()
    };
    let mut options = Map::new();
    sampling.set_in(&mut options);
    options
}

/// Returns the thinking mode of a request; `None` for the model's default.
pub(super) fn think(request: &MessagesRequest) -> Result<Option<Think>, ApiError> {
    let kind = request.thinking.as_ref().map(|thinking| thinking.kind.as_str());
    let effort = request.output_config.as_ref().and_then(|config| config.effort.as_deref());
    let level = match effort {
        None => None,
        Some("low") => Some(Level::Low),
        Some("medium") => Some(Level::Medium),
        Some("high" | "xhigh") => Some(Level::High),
        Some("max") => Some(Level::Max),
        Some(other) => {
            return Err(ApiError::bad_request(format!("invalid output_config.effort: {:?}", excerpt(other))));
        }
    };
    match kind {
        // Without the field, Anthropic's models do not think.
        None | Some("disabled") => Ok(Some(Think::Switch(false))),
        Some("enabled" | "adaptive") => Ok(Some(level.map_or(Think::Switch(true), Think::Level))),
        Some(other) => Err(ApiError::bad_request(format!("invalid thinking.type: {:?}", excerpt(other)))),
    }
}

/// Returns the format of the answer.
pub(super) fn format(request: &mut MessagesRequest) -> Result<Option<Constraint>, ApiError> {
    let Some(format) = request.output_config.as_mut().and_then(|config| config.format.take()) else { return Ok(None) };
    match (format.kind.as_str(), format.schema) {
        ("json_schema", Some(schema)) => Ok(Some(Constraint::JsonSchema(schema))),
        ("json_schema", None) => Err(ApiError::bad_request("output_config.format has no schema")),
        (other, _) => Err(ApiError::bad_request(format!(
            "invalid output_config.format: the type {:?} (must be \"json_schema\")",
            excerpt(other)
        ))),
    }
}

/// Returns the tools that the model sees, and how it must use them.
pub(super) fn tools(request: &mut MessagesRequest) -> Result<(Vec<Value>, ToolUse), ApiError> {
    let tools = request.tools.take().unwrap_or_default();
    if let Some(Tool { kind: Some(kind), .. }) = tools.iter().find(|tool| !tool.is_of_client()) {
        return Err(ApiError::bad_request(format!("this server has no tool of the type {:?}", excerpt(kind))));
    }
    let choice = request.tool_choice.take().unwrap_or_default();
    let is_single = choice["disable_parallel_tool_use"] == true;
    let choice = match (choice["type"].as_str(), choice["name"].as_str()) {
        (None | Some("auto"), _) => ToolChoice::Auto,
        (Some("none"), _) => ToolChoice::None,
        (Some("any"), _) => ToolChoice::Required,
        (Some("tool"), Some(name)) => ToolChoice::Named { names: vec![name.to_owned()], is_required: true },
        (Some(kind), _) => {
            return Err(ApiError::bad_request(format!(
                "invalid tool_choice: {:?} (must be \"auto\", \"any\", \"none\", or \"tool\" with a name)",
                excerpt(kind)
            )));
        }
    };
    let function = |tool: Tool| {
        let mut function = json!({ "name": tool.name });
        for (key, value) in [("description", tool.description.map(Value::from)), ("parameters", tool.input_schema)] {
            if let (Some(value), Some(function)) = (value, function.as_object_mut()) {
                function.insert(key.to_owned(), value);
            }
        }
        NamedTool { name: tool.name, value: json!({ "type": "function", "function": function }) }
    };
    tools::offered(tools.into_iter().map(function).collect(), choice, is_single)
}

/// Converts the conversation, with the system message first.
pub(super) fn messages(request: &mut MessagesRequest) -> Result<Vec<Message>, ApiError> {
    let mut all = Vec::new();
    if let Some(system) = request.system.take() {
        all.push(Message::new("system", text(system)?));
    }
    // Names of the called tools by the ids of the calls: a result has only the id.
    let mut called = HashMap::new();
    for message in std::mem::take(&mut request.messages) {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        };
        let blocks = match message.content {
            Blocks::Text(text) => vec![Block::Text { text }],
            Blocks::List(blocks) => blocks,
        };
        add_message(&mut all, role, blocks, &mut called)?;
    }
    Ok(all)
}

/// Adds a message. The results of tools in it become messages of their own before the text, as templates expect.
fn add_message(
    all: &mut Vec<Message>,
    role: &str,
    blocks: Vec<Block>,
    called: &mut HashMap<String, String>,
) -> Result<(), ApiError> {
    let mut message = Message::new(role, "");
    let mut texts = Vec::new();
    let is_empty = blocks.is_empty();
    let mut results = 0;
    for block in blocks {
        match block {
            Block::Text { text } => texts.push(text),
            Block::Thinking { thinking } => message.thinking = Some(thinking),
            Block::RedactedThinking {} => {}
            Block::Image { source } => message.images.push(image(&source)?),
            Block::ToolUse { id, name, input } => {
                let arguments = tools::arguments(input, &name)?;
                called.insert(id.clone(), name.clone());
                message.tool_calls.push(ToolCall { id: Some(id), name, arguments });
            }
            Block::ToolResult { tool_use_id, content, is_error } => {
                let (content, images) = content.map(result).transpose()?.unwrap_or_default();
                let content = if is_error == Some(true) { format!("Error: {content}") } else { content };
                let tool_name = called.get(&tool_use_id).cloned();
                results += 1;
                let tool_call_id = Some(tool_use_id);
                all.push(Message { tool_name, tool_call_id, images, ..Message::new("tool", content) });
            }
        }
    }
    message.content = texts.join("\n");
    // A message of results only has no text of its own.
    if is_empty || results == 0 || !message.content.is_empty() {
        all.push(message);
    }
    Ok(())
}

/// Returns the text of a system message.
fn text(blocks: Blocks) -> Result<String, ApiError> {
    let (text, images) = result(blocks)?;
    if images.is_empty() { Ok(text) } else { Err(ApiError::bad_request("a system message contains an image")) }
}

/// Returns the text and the images of a tool's result, for example a screenshot.
fn result(blocks: Blocks) -> Result<(String, Vec<Image>), ApiError> {
    let list = match blocks {
        Blocks::Text(text) => return Ok((text, Vec::new())),
        Blocks::List(list) => list,
    };
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for block in list {
        match block {
            Block::Text { text } => texts.push(text),
            Block::Image { source } => images.push(image(&source)?),
            _ => {
                return Err(ApiError::bad_request(
                    "a system message or tool result contains a block that is neither a text nor an image",
                ));
            }
        }
    }
    Ok((texts.join("\n"), images))
}

fn image(source: &ImageSource) -> Result<Image, ApiError> {
    match source.kind.as_str() {
        "base64" => images::decode(&source.data),
        _ => Err(ApiError::bad_request("an image must be in base64; this server fetches no images")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(value: Value) -> MessagesRequest {
        serde_json::from_value(value).expect("a request")
    }

    #[test]
    fn blocks_become_messages_of_the_template() {
        let mut request = request(json!({
            "system": [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": "1 + 1?"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": ""},
                    {"type": "text", "text": "Wait."},
                    {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "2"}]},
                    {"type": "text", "text": "So?"},
                ]},
            ],
        }));
        let found = messages(&mut request).expect("a valid conversation");
        let roles: Vec<_> = found.iter().map(|message| (&*message.role, &*message.content)).collect();
        let expected =
            [("system", "Be short."), ("user", "1 + 1?"), ("assistant", "Wait."), ("tool", "2"), ("user", "So?")];
        assert_eq!(roles, expected, "one message for each result");
        assert_eq!(found[2].thinking.as_deref(), Some("Hm."), "the reasoning");
        assert_eq!(found[2].tool_calls[0].arguments, json!({"a": 1}), "the arguments");
        assert_eq!(found[3].tool_name.as_deref(), Some("add"), "the name of the call");
    }

    #[test]
    fn results_of_tools_may_have_images() {
        let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}});
        let result = |block: &Value| {
            let content = json!([{"type": "text", "text": "The screen:"}, block]);
            json!({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": content}]}]})
        };
        let found = messages(&mut request(result(&image))).expect("a result with an image");
        assert_eq!((found.len(), &*found[0].role, &*found[0].content), (1, "tool", "The screen:"));
        assert_eq!(found[0].images, [Image { bytes: b"hi".to_vec() }], "the image of the result");
        let thinking = json!({"type": "thinking", "thinking": ""});
        assert!(messages(&mut request(result(&thinking))).is_err(), "another block");
        assert!(messages(&mut request(json!({"system": [image]}))).is_err(), "a system message with an image");
    }

    #[test]
    fn thinking_is_off_unless_requested() {
        let check = |value: Value, expected: Option<Think>| {
            assert_eq!(think(&request(value.clone())).ok().flatten(), expected, "{value}");
        };
        check(json!({}), Some(Think::Switch(false)));
        check(json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}), Some(Think::Switch(true)));
        let effort = json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}});
        check(effort, Some(Think::Level(Level::Low)));
        assert!(think(&request(json!({"thinking": {"type": "x"}}))).is_err(), "an unknown type");
    }
}
