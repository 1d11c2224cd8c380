//! What a template finds: the conversation as values with the names that Ollama gives them.
//!
//! Go's structures become maps, which also have no field but theirs; what Ollama prints as JSON is noted in [`Printed`].

use std::collections::BTreeMap;
use std::sync::Arc;

use gotmpl::Value;
use serde_json::{Map, Value as Json, json};

use super::super::{Render, Think};
use super::text::Printed;
use crate::message::{Message, ToolCall};

/// A map of named values.
pub(super) fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let entries: BTreeMap<Arc<str>, Value> =
        entries.into_iter().map(|(name, value)| (Arc::from(name), value)).collect();
    Value::from(entries)
}

/// What every rendering has: whether the model shall reason, and how much.
pub(super) fn thinking(input: &Render<'_>) -> [(&'static str, Value); 3] {
    let think = input.thinking.as_ref();
    let level = match think {
        Some(Think::Level(level)) => level,
        // Where a level is needed, this is what "yes" means.
        Some(Think::On) => "medium",
        Some(Think::Off) | None => "",
    };
    [
        ("Think", Value::Bool(think.is_some_and(|think| *think != Think::Off))),
        ("ThinkLevel", Value::from(level)),
        ("IsThinkSet", Value::Bool(think.is_some())),
    ]
}

/// A message.
pub(super) fn message(message: &Message, printed: &mut Printed) -> Value {
    let some = |text: &Option<String>| Value::from(text.as_deref().unwrap_or_default());
    let calls = message.tool_calls.iter().enumerate();
    let calls: Vec<Value> = calls.map(|(index, call)| tool_call(index, call, printed)).collect();
    map([
        ("Role", Value::from(message.role.as_str())),
        ("Content", Value::from(message.content.as_str())),
        ("Thinking", some(&message.thinking)),
        // What a template can do with pictures is to count them.
        ("Images", Value::from(vec![Value::from(""); message.images.len()])),
        ("ToolCalls", Value::from(calls)),
        ("ToolName", some(&message.tool_name)),
        ("ToolCallID", some(&message.tool_call_id)),
    ])
}

fn tool_call(index: usize, call: &ToolCall, printed: &mut Printed) -> Value {
    // Arguments are an object; what is none has none.
    let text = if call.arguments.is_object() { sorted(&call.arguments) } else { Json::Object(Map::new()) };
    let arguments = plain(&text);
    printed.insert(&arguments, &text);
    let function = map([
        ("Index", Value::Int(i64::try_from(index).unwrap_or(i64::MAX))),
        ("Name", Value::from(call.name.as_str())),
        ("Arguments", arguments),
    ]);
    map([("ID", Value::from(call.id.as_deref().unwrap_or_default())), ("Function", function)])
}

/// The tools on offer, from the list that OpenAI's API has; nothing for no tools.
pub(super) fn tools(tools: Option<&Json>, printed: &mut Printed) -> Value {
    let Some(Json::Array(tools)) = tools else { return Value::Nil };
    let (mut values, mut texts) = (Vec::new(), Vec::new());
    for tool in tools {
        let (value, text) = tool_value(tool, printed);
        printed.insert(&value, &text);
        values.push(value);
        texts.push(text);
    }
    let list = Value::from(values);
    printed.insert(&list, &Json::Array(texts));
    list
}

fn tool_value(tool: &Json, printed: &mut Printed) -> (Value, Json) {
    let function = &tool["function"];
    let parameters = &function["parameters"];
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();

    let mut properties: Vec<(&String, &Json)> = parameters["properties"].as_object().into_iter().flatten().collect();
    properties.sort_by_key(|(name, _)| *name);
    let texts: Map<String, Json> =
        properties.iter().map(|(name, value)| ((*name).clone(), property_json(value))).collect();
    let texts = Json::Object(texts);
    let values = map(properties.iter().map(|(name, value)| (name.as_str(), property(value))));
    printed.insert(&values, &texts);

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
    printed.insert(&parameters, &parameters_json);

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
    printed.insert(&function, &function_json);

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

/// A property's keys, in the order in which Ollama writes them; others are dropped.
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
            // One type is a list of one.
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

/// What Go leaves out of JSON.
fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// JSON with the keys of every object in order, as Go's maps are written.
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

/// JSON as Go reads it where it knows no type: every number is a float.
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
