//! Converts messages and tools of the OpenAI API.

use std::collections::HashMap;

use cairn_app::inference::{Image, Message, ToolCall};
use cairn_wire::excerpt;
use cairn_wire::openai::{self as wire, ChatMessage, Content, ImageUrl};
use serde_json::Value;

use crate::error::ApiError;
use crate::{images, tools};

/// Converts a conversation.
pub(super) fn messages(messages: Vec<ChatMessage>) -> Result<Vec<Message>, ApiError> {
    // Names of the called tools by the ids of the calls: a result has only the id.
    let mut called: HashMap<String, String> = HashMap::new();
    let convert = |message: ChatMessage| {
        let ChatMessage { role, content, name, reasoning, tool_calls, tool_call_id } = message;
        let tool_calls: Vec<ToolCall> =
            tool_calls.unwrap_or_default().into_iter().map(tool_call).collect::<Result<_, _>>()?;
        if content.is_none() && tool_calls.is_empty() && role != "assistant" {
            return Err(ApiError::bad_request(format!("a message with the role {:?} has no content", excerpt(&role))));
        }
        for call in &tool_calls {
            called.extend(call.id.clone().map(|id| (id, call.name.clone())));
        }
        let of_call = || tool_call_id.as_ref().and_then(|id| called.get(id).cloned());
        let tool_name = if role == "tool" { name.or_else(of_call) } else { None };
        // `developer` is the name that reasoning models use for the system message.
        let role = if role == "developer" { "system".to_owned() } else { role };
        let (text, images) = content.map(self::content).transpose()?.unwrap_or_default();
        Ok(Message { thinking: reasoning, tool_calls, tool_name, tool_call_id, images, ..Message::new(role, text) })
    };
    messages.into_iter().map(convert).collect()
}

/// Returns the text and the images of a message.
fn content(content: Content) -> Result<(String, Vec<Image>), ApiError> {
    let parts = match content {
        Content::Text(text) => return Ok((text, Vec::new())),
        Content::Parts(parts) => parts,
    };
    let (mut texts, mut found) = (Vec::new(), Vec::new());
    for part in parts {
        match part.kind.as_str() {
            "text" | "input_text" | "output_text" | "refusal" => texts.push(part.text.unwrap_or_default()),
            "image_url" | "input_image" => found.push(match part.image_url {
                Some(ImageUrl::Url(url) | ImageUrl::Object { url }) => images::of_url(&url)?,
                None => return Err(ApiError::bad_request("an image has no image_url")),
            }),
            kind => {
                return Err(ApiError::bad_request(format!(
                    "a part of a message has the type {:?}; this server accepts \"text\" and \"image_url\"",
                    excerpt(kind)
                )));
            }
        }
    }
    Ok((texts.join("\n"), found))
}

fn tool_call(call: wire::ToolCall) -> Result<ToolCall, ApiError> {
    let arguments = match call.function.arguments.trim() {
        "" => Value::Object(serde_json::Map::new()),
        text => serde_json::from_str(text)
            .ok()
            .filter(Value::is_object)
            .ok_or_else(|| tools::invalid_arguments(&call.function.name, "the text of a JSON object"))?,
    };
    Ok(ToolCall { id: (!call.id.is_empty()).then_some(call.id), name: call.function.name, arguments })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn convert(list: Value) -> Result<Vec<Message>, String> {
        messages(serde_json::from_value(list).expect("messages")).map_err(|error| error.into_body().error)
    }

    #[test]
    fn tool_result_gets_the_name_of_its_call() {
        let call = json!({"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}});
        let list = json!([
            {"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "short."}]},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "2"},
        ]);
        let found = convert(list).expect("a valid conversation");
        assert_eq!((&*found[0].role, &*found[0].content), ("system", "Be\nshort."), "parts are joined");
        assert_eq!(found[1].tool_calls[0].arguments, json!({"a": 1}), "arguments are an object");
        assert_eq!(found[2].tool_name.as_deref(), Some("add"), "the name of the call");
    }

    #[test]
    fn unusable_message_is_refused() {
        let check = |message: Value, expected: &str| {
            let error = convert(json!([message])).expect_err("the message is refused");
            assert!(error.contains(expected), "{error}");
        };
        check(json!({"role": "user"}), "has no content");
        check(json!({"role": "user", "content": [{"type": "input_audio"}]}), "the type \"input_audio\"");
        let call = json!({"id": "c", "function": {"name": "add", "arguments": "[1]"}});
        check(json!({"role": "assistant", "tool_calls": [call]}), "invalid tool call arguments");
    }
}
