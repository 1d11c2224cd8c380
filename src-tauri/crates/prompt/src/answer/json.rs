//! Calls in JSON: `{"name": …, "arguments": {…}}`, one or several, or a list of them.

use serde_json::{Deserializer, Map, Value};

use super::literal;
use super::tool::{self, Tool};
use crate::message::ToolCall;

/// Parses a body that consists of calls in JSON.
pub(super) fn calls(text: &str, _tools: &[Tool]) -> Option<Vec<ToolCall>> {
    let mut calls = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ';'));
        if rest.is_empty() {
            return (!calls.is_empty()).then_some(calls);
        }
        let (value, after) = first_value(rest)?;
        rest = after;
        match value {
            Value::Array(items) => {
                for item in items {
                    calls.push(call(item)?);
                }
            }
            value => calls.push(call(value)?),
        }
    }
}

/// Parses a body like [`calls`] and requires that all tools exist. For bodies that may be an answer in JSON.
pub(super) fn existing_calls(text: &str, tools: &[Tool]) -> Option<Vec<ToolCall>> {
    calls(text, tools).filter(|calls| calls.iter().all(|call| tool::find(tools, &call.name).is_some()))
}

/// Parses the value at the start of `text`. Returns it and the text after it. Accepts Python's spelling too, because
/// small models confuse them.
pub(super) fn first_value(text: &str) -> Option<(Value, &str)> {
    let mut values = Deserializer::from_str(text).into_iter::<Value>();
    match values.next()? {
        Ok(value) => Some((value, text.get(values.byte_offset()..)?)),
        Err(_) => literal::first_value(text, None),
    }
}

/// Parses arguments that are the whole text. An empty text has no arguments.
pub(super) fn arguments_of(text: &str) -> Option<Value> {
    if text.trim().is_empty() {
        return Some(Value::Object(Map::new()));
    }
    let (value, after) = first_value(text)?;
    (value.is_object() && after.trim().is_empty()).then_some(value)
}

/// Converts a call. The name and the arguments have several keys in use; either may be nested in `function`.
fn call(value: Value) -> Option<ToolCall> {
    let Value::Object(mut object) = value else { return None };
    let id = object.get("id").and_then(Value::as_str).map(str::to_owned);
    if let Some(Value::Object(function)) = object.get_mut("function") {
        object = std::mem::take(function);
    }
    let name = ["name", "tool_name", "function"].iter().find_map(|key| object.get(*key)?.as_str());
    let name = name.filter(|name| !name.is_empty())?.to_owned();
    let arguments = match ["arguments", "parameters"].iter().find_map(|key| object.remove(*key)) {
        None | Some(Value::Null) => Value::Object(Map::new()),
        Some(Value::String(text)) => arguments_of(&text)?,
        Some(value) => Some(value).filter(Value::is_object)?,
    };
    Some(ToolCall { id, name, arguments })
}

/// Creates a call without an id.
pub(super) fn named(name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: None, name: name.to_owned(), arguments }
}
