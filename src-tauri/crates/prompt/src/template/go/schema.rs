//! Tools with the types that Ollama gives them in templates.
//!
//! Members of other types than expected are dropped, as the API accepts any JSON. An absent list or map differs from an
//! empty one, because Go encodes it as `null`.
//!
//! Spec: the types `Tool` and `ToolProperty` of Ollama's API.

use serde_json::{Map, Value as Json};

/// A tool.
#[derive(Debug, Default)]
pub(super) struct Tool {
    pub(super) kind: String,
    pub(super) items: Json,
    pub(super) function: Function,
}

/// The function of a tool.
#[derive(Debug, Default)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) parameters: Parameters,
}

/// The schema of a function's arguments.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    pub(super) kind: String,
    pub(super) definitions: Json,
    pub(super) items: Json,
    pub(super) required: Option<Vec<String>>,
    /// Sorted by name.
    pub(super) properties: Option<Vec<(String, Property)>>,
}

/// The schema of one argument.
#[derive(Debug)]
pub(super) struct Property {
    pub(super) any_of: Option<Vec<Property>>,
    pub(super) kinds: Option<Vec<String>>,
    pub(super) items: Json,
    pub(super) description: String,
    pub(super) values: Option<Vec<Json>>,
    /// In the client's order.
    pub(super) properties: Option<Vec<(String, Property)>>,
    pub(super) required: Option<Vec<String>>,
}

/// A property without members.
pub(super) static EMPTY_PROPERTY: Property = Property {
    any_of: None,
    kinds: None,
    items: Json::Null,
    description: String::new(),
    values: None,
    properties: None,
    required: None,
};

impl Property {
    fn from_json(json: &Json) -> Property {
        Property {
            any_of: json["anyOf"].as_array().map(|variants| variants.iter().map(Property::from_json).collect()),
            kinds: match &json["type"] {
                Json::String(kind) => Some(vec![kind.clone()]),
                kinds => strings(kinds),
            },
            items: json["items"].clone(),
            description: text(&json["description"]),
            values: json["enum"].as_array().cloned(),
            properties: json["properties"].as_object().map(properties),
            required: strings(&json["required"]),
        }
    }

    /// Returns the type in TypeScript.
    pub(super) fn typescript(&self) -> String {
        let names: Vec<String> = match (self.any_of.as_deref(), self.kinds.as_deref()) {
            (Some(variants @ [_, ..]), _) => variants.iter().map(Property::typescript).collect(),
            (_, Some(kinds @ [_, ..])) => kinds.iter().map(|kind| typescript(kind).to_owned()).collect(),
            _ => return "any".to_owned(),
        };
        names.join(" | ")
    }
}

/// Reads the list of tools in the format of OpenAI's API. Returns `None` if there is no list.
pub(super) fn tools(json: Option<&Json>) -> Option<Vec<Tool>> {
    let tools = json?.as_array()?;
    Some(tools.iter().map(Tool::from_json).collect())
}

impl Tool {
    fn from_json(json: &Json) -> Tool {
        let function = &json["function"];
        let parameters = &function["parameters"];
        let mut sorted = parameters["properties"].as_object().map(properties);
        if let Some(properties) = &mut sorted {
            properties.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        Tool {
            kind: text(&json["type"]),
            items: json["items"].clone(),
            function: Function {
                name: text(&function["name"]),
                description: text(&function["description"]),
                parameters: Parameters {
                    kind: text(&parameters["type"]),
                    definitions: parameters["$defs"].clone(),
                    items: parameters["items"].clone(),
                    required: strings(&parameters["required"]),
                    properties: sorted,
                },
            },
        }
    }
}

fn properties(object: &Map<String, Json>) -> Vec<(String, Property)> {
    object.iter().map(|(name, json)| (name.clone(), Property::from_json(json))).collect()
}

fn text(json: &Json) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

fn strings(json: &Json) -> Option<Vec<String>> {
    json.as_array().map(|items| items.iter().map(text).collect())
}

fn typescript(kind: &str) -> &'static str {
    match kind {
        "string" => "string",
        "number" | "integer" => "number",
        "boolean" => "boolean",
        "array" => "any[]",
        "object" => "Record<string, any>",
        "null" => "null",
        _ => "any",
    }
}
