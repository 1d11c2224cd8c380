//! The conversation as template values, with Ollama's names.
//!
//! Go's structures become maps. Values that Ollama prints as JSON are recorded in [`JsonTexts`].

use std::collections::BTreeMap;
use std::sync::Arc;

use gotmpl::Value;
use serde_json::{Map, Value as Json, json};

use super::super::{RenderInput, ThinkMode};
use super::text::JsonTexts;
use crate::message::{Message, ToolCall};

/// Creates a map.
pub(super) fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let entries: BTreeMap<Arc<str>, Value> =
        entries.into_iter().map(|(name, value)| (Arc::from(name), value)).collect();
    Value::from(entries)
}

/// Returns the values for thinking, which every rendering has.
pub(super) fn thinking(input: &RenderInput<'_>) -> [(&'static str, Value); 3] {
    let think = input.thinking.as_ref();
    let level = match think {
        Some(ThinkMode::Level(level)) => level,
        // Templates that need a level get this one.
        Some(ThinkMode::On) => "medium",
        Some(ThinkMode::Off) | None => "",
    };
    [
        ("Think", Value::Bool(think.is_some_and(|think| *think != ThinkMode::Off))),
        ("ThinkLevel", Value::from(level)),
        ("IsThinkSet", Value::Bool(think.is_some())),
    ]
}

/// Converts a message.
pub(super) fn message(message: &Message, json_texts: &mut JsonTexts) -> Value {
    let some = |text: &Option<String>| Value::from(text.as_deref().unwrap_or_default());
    let calls = message.tool_calls.iter().enumerate();
    let calls: Vec<Value> = calls.map(|(index, call)| tool_call(index, call, json_texts)).collect();
    map([
        ("Role", Value::from(message.role.as_str())),
        ("Content", Value::from(message.content.as_str())),
        ("Thinking", some(&message.thinking)),
        // Templates can only count images.
        ("Images", Value::from(vec![Value::from(""); message.images.len()])),
        ("ToolCalls", Value::from(calls)),
        ("ToolName", some(&message.tool_name)),
        ("ToolCallID", some(&message.tool_call_id)),
    ])
}

fn tool_call(index: usize, call: &ToolCall, json_texts: &mut JsonTexts) -> Value {
    // Arguments that are not an object are dropped.
    let text = if call.arguments.is_object() { sorted(&call.arguments) } else { Json::Object(Map::new()) };
    let arguments = plain(&text);
    json_texts.insert(&arguments, &text);
    let function = map([
        ("Index", Value::Int(i64::try_from(index).unwrap_or(i64::MAX))),
        ("Name", Value::from(call.name.as_str())),
        ("Arguments", arguments),
    ]);
    map([("ID", Value::from(call.id.as_deref().unwrap_or_default())), ("Function", function)])
}

/// Converts the list of tools in the format of OpenAI's API.
pub(super) fn tools(tools: Option<&Json>, json_texts: &mut JsonTexts) -> Value {
    let Some(Json::Array(tools)) = tools else { return Value::Nil };
    let (mut values, mut texts) = (Vec::new(), Vec::new());
    for tool in tools {
        let (value, text) = tool_value(tool, json_texts);
        json_texts.insert(&value, &text);
        values.push(value);
        texts.push(text);
    }
    let list = Value::from(values);
    json_texts.insert(&list, &Json::Array(texts));
    list
}

fn tool_value(tool: &Json, json_texts: &mut JsonTexts) -> (Value, Json) {
    let function = &tool["function"];
    let parameters = &function["parameters"];
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();

    let mut properties: Vec<(&String, &Json)> = parameters["properties"].as_object().into_iter().flatten().collect();
    properties.sort_by_key(|(name, _)| *name);
    let texts: Map<String, Json> =
        properties.iter().map(|(name, value)| ((*name).clone(), property_json(value))).collect();
    let texts = Json::Object(texts);
    let values = map(properties.iter().map(|(name, value)| (name.as_str(), property(value))));
    json_texts.insert(&values, &texts);

    let mut parameters_json = Map::new();
    parameters_json.insert("type".to_owned(), json!(text(&parameters["type"])));
    for name in ["$defs", "items", "required"] {
        if let Some(value) = parameters.get(name).filter(|value| !is_empty(value)) {
            parameters_json.insert(name.to_owned(), sorted(value));
        }
    }
    parameters_json.insert("properties".to_owned(), texts);
    let parameters_json = Json::Object(parameters_json);
    let parameters = map([
        ("Type", Value::from(text(&parameters["type"]))),
        ("Defs", plain(&parameters["$defs"])),
        ("Items", plain(&parameters["items"])),
        ("Required", plain(&parameters["required"])),
        ("Properties", values),
    ]);
    json_texts.insert(&parameters, &parameters_json);

    let function_json = json!({
        "name": text(&function["name"]),
        "description": text(&function["description"]),
        "parameters": parameters_json,
    });
    let function = map([
        ("Name", Value::from(text(&function["name"]))),
        ("Description", Value::from(text(&function["description"]))),
        ("Parameters", parameters),
    ]);
    json_texts.insert(&function, &function_json);

    let mut tool_json = Map::new();
    tool_json.insert("type".to_owned(), json!(text(&tool["type"])));
    if let Some(items) = tool.get("items").filter(|items| !items.is_null()) {
        tool_json.insert("items".to_owned(), sorted(items));
    }
    tool_json.insert("function".to_owned(), function_json);
    let value =
        map([("Type", Value::from(text(&tool["type"]))), ("Items", plain(&tool["items"])), ("Function", function)]);
    (value, Json::Object(tool_json))
}

/// Keys of a property in Ollama's order. Other keys are dropped.
const PROPERTY_KEYS: [(&str, &str); 7] = [
    ("anyOf", "AnyOf"),
    ("type", "Type"),
    ("items", "Items"),
    ("description", "Description"),
    ("enum", "Enum"),
    ("properties", "Properties"),
    ("required", "Required"),
];

fn property(property_json: &Json) -> Value {
    map(PROPERTY_KEYS.map(|(key, name)| {
        let value = &property_json[key];
        let value = match (key, value) {
            ("anyOf", Json::Array(variants)) => Value::from(variants.iter().map(property).collect::<Vec<_>>()),
            ("properties", Json::Object(inner)) => {
                map(inner.iter().map(|(name, value)| (name.as_str(), property(value))))
            }
            // A single type becomes a list.
            ("type", Json::String(one)) => Value::from(vec![Value::from(one.as_str())]),
            ("description", Json::Null) => Value::from(""),
            (_, value) => plain(value),
        };
        (name, value)
    }))
}

fn property_json(property: &Json) -> Json {
    let keys = PROPERTY_KEYS.iter().filter_map(|(key, _)| {
        let value = property.get(*key).filter(|value| !is_empty(value))?;
        let value = match (*key, value) {
            ("anyOf", Json::Array(variants)) => Json::Array(variants.iter().map(property_json).collect()),
            ("properties", Json::Object(inner)) => {
                Json::Object(inner.iter().map(|(name, value)| (name.clone(), property_json(value))).collect())
            }
            (_, value) => sorted(value),
        };
        Some(((*key).to_owned(), value))
    });
    Json::Object(keys.collect())
}

/// Returns whether Go's encoder omits the value.
fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Sorts the keys of every object, as Go's encoder does for maps.
fn sorted(value: &Json) -> Json {
    match value {
        Json::Array(items) => Json::Array(items.iter().map(sorted).collect()),
        Json::Object(entries) => {
            let mut entries: Vec<(&String, &Json)> = entries.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            Json::Object(entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        other => other.clone(),
    }
}

/// Converts JSON as Go decodes it without a type: every number is a float.
fn plain(value: &Json) -> Value {
    match value {
        Json::Null => Value::Nil,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => Value::Float(number.as_f64().unwrap_or_default()),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::from(items.iter().map(plain).collect::<Vec<_>>()),
        Json::Object(entries) => map(entries.iter().map(|(key, value)| (key.as_str(), plain(value)))),
    }
}
