//! Converts the items of a request to the messages of the chat endpoint.
//!
//! Reasoning, text and calls of one answer are separate items, and one message of the model.

use cairn_wire::excerpt;
use cairn_wire::openai::{ChatMessage, Content, ContentPart, FunctionCall, InputItem, InputItems, ToolCall};

use super::tools::qualified_name;
use crate::error::ApiError;

/// Returns the conversation as messages, with the instructions first.
pub(super) fn messages(instructions: Option<String>, input: Option<InputItems>) -> Result<Vec<ChatMessage>, ApiError> {
    let items = match input {
        None => Vec::new(),
        Some(InputItems::Text(text)) => vec![message("user", Some(Content::Text(text)))],
        Some(InputItems::List(items)) => join(items)?,
    };
    if items.is_empty() {
        return Err(ApiError::bad_request("input is empty; it must be a text or a list of items"));
    }
    let instructions = instructions.filter(|text| !text.is_empty());
    let system = instructions.map(|text| message("system", Some(Content::Text(text))));
    Ok(system.into_iter().chain(items).collect())
}

fn message(role: &str, content: Option<Content>) -> ChatMessage {
    ChatMessage { role: role.to_owned(), content, ..ChatMessage::default() }
}

/// Converts items. Those of the model that follow one another become one message.
fn join(items: Vec<InputItem>) -> Result<Vec<ChatMessage>, ApiError> {
    let mut all: Vec<ChatMessage> = Vec::new();
    for item in items {
        let next = convert(item)?;
        match all.last_mut() {
            Some(last) if continues(last, &next) => {
                last.content = last.content.take().or(next.content);
                last.tool_calls.get_or_insert_default().extend(next.tool_calls.unwrap_or_default());
            }
            _ => all.push(next),
        }
    }
    Ok(all)
}

/// Whether a message of the model is the continuation of the one before: reasoning comes first, then text, then calls.
fn continues(last: &ChatMessage, next: &ChatMessage) -> bool {
    let is_model = |message: &ChatMessage| message.role == "assistant";
    let has_calls = |message: &ChatMessage| message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
    let only_calls = has_calls(next) && next.content.is_none();
    let only_reasoned = last.content.is_none() && !has_calls(last);
    is_model(last) && is_model(next) && next.reasoning.is_none() && (only_calls || only_reasoned)
}

fn convert(item: InputItem) -> Result<ChatMessage, ApiError> {
    let InputItem { kind, role, content, summary, call_id, namespace, name, arguments, output } = item;
    let required = |value: Option<String>, field: &str, kind: &str| {
        value.ok_or_else(|| ApiError::bad_request(format!("an item {kind:?} of the input has no {field}")))
    };
    match kind.as_deref().unwrap_or("message") {
        "message" => Ok(message(&required(role, "role", "message")?, content)),
        kind @ "function_call" => {
            let name = required(name, "name", kind)?;
            let name = match namespace.filter(|namespace| !namespace.is_empty()) {
                // The model called it by this name.
                Some(namespace) => qualified_name(&namespace, &name),
                None => name,
            };
            let function = FunctionCall { name, arguments: required(arguments, "arguments", kind)? };
            let id = required(call_id, "call_id", kind)?;
            let call = ToolCall { index: None, id, kind: "function".to_owned(), function };
            Ok(ChatMessage { tool_calls: Some(vec![call]), ..message("assistant", None) })
        }
        kind @ "function_call_output" => {
            let tool_call_id = Some(required(call_id, "call_id", kind)?);
            let output = output.unwrap_or_else(|| Content::Text(String::new()));
            Ok(ChatMessage { tool_call_id, ..message("tool", Some(output)) })
        }
        "reasoning" => {
            let parts = match content {
                Some(Content::Parts(parts)) if !parts.is_empty() => parts,
                Some(Content::Text(text)) => vec![ContentPart { text: Some(text), ..ContentPart::default() }],
                _ => summary.unwrap_or_default(),
            };
            let texts: Vec<String> = parts.into_iter().filter_map(|part| part.text).collect();
            Ok(ChatMessage { reasoning: Some(texts.join("\n")), ..message("assistant", None) })
        }
        other => Err(ApiError::bad_request(format!(
            "an item of the input has the type {:?}; this server accepts \"message\", \"function_call\", \
             \"function_call_output\" and \"reasoning\"",
            excerpt(other)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn convert(input: Value) -> Result<Value, String> {
        let input = serde_json::from_value(input).expect("an input");
        let found = messages(Some("Be brief.".to_owned()), input).map_err(|error| error.into_body().error)?;
        Ok(serde_json::to_value(found).expect("messages can be serialised"))
    }

    #[test]
    fn items_of_one_answer_become_one_message() {
        let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "add", "arguments": "{}"});
        let text = json!([{"type": "output_text", "text": "Wait.", "annotations": []}]);
        let input = json!([
            {"role": "user", "content": "1 + 1?"},
            {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
            {"type": "message", "role": "assistant", "content": text},
            call("a"),
            call("b"),
            {"type": "function_call_output", "call_id": "a", "output": "2"},
            {"role": "assistant", "content": "2"},
        ]);
        let called = |id: &str| json!({"id": id, "type": "function", "function": {"name": "add", "arguments": "{}"}});
        let expected = json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "1 + 1?"},
            {"role": "assistant", "reasoning": "Hm.", "content": [{"type": "output_text", "text": "Wait."}],
             "tool_calls": [called("a"), called("b")]},
            {"role": "tool", "tool_call_id": "a", "content": "2"},
            {"role": "assistant", "content": "2"},
        ]);
        assert_eq!(convert(input), Ok(expected));
    }

    #[test]
    fn call_of_a_namespace_has_the_name_that_the_model_sees() {
        let check = |namespace: Value, expected: &str| {
            let call = json!({"type": "function_call", "call_id": "a", "namespace": namespace, "name": "add", "arguments": "{}"});
            let messages = convert(json!([call])).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(messages[1]["tool_calls"][0]["function"]["name"], expected, "{namespace}");
        };
        check(json!("math"), "math__add");
        check(json!(""), "add");
        check(json!(null), "add");
    }

    #[test]
    fn unusable_item_is_refused() {
        let check = |input: Value, expected: &str| {
            let error = convert(input).expect_err("the input is refused");
            assert!(error.contains(expected), "{error}");
        };
        check(json!([]), "input is empty");
        check(json!([{"content": "x"}]), "has no role");
        check(json!([{"type": "function_call", "name": "f", "arguments": "{}"}]), "has no call_id");
        check(json!([{"type": "item_reference", "id": "x"}]), "the type \"item_reference\"");
    }
}
