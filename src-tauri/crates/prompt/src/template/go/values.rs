//! The conversation as typed values, with Ollama's names.
//!
//! A value corresponds to a value of Go's `reflect`: its type selects its fields, its methods, and how it prints. Values
//! borrow the conversation, so that copies are cheap. An `any` is replaced by its content, except `nil`.

use std::rc::Rc;

use serde_json::{Map as Object, Value as Json};

use super::schema::{EMPTY_PROPERTY, Function, Parameters, Property, Tool};
use crate::message::{Image, Message, ToolCall};

/// A value of a template.
#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    /// No value, such as the result of a pipeline that is `nil`.
    None,
    /// The `nil` of type `any`, such as a missing entry of a map.
    Nil,
    Bool(bool),
    Int(i64),
    Byte(u8),
    Float(f64),
    Text(Text<'a>),
    List(List<'a>),
    Map(Map<'a>),
    Struct(Struct<'a>),
}

/// Bytes that are usually UTF-8: a template can cut a character.
#[derive(Debug, Clone)]
pub(super) enum Text<'a> {
    Borrowed(&'a [u8]),
    Shared(Rc<[u8]>),
}

/// Items of a list, by the type of its elements.
#[derive(Debug, Clone, Copy)]
pub(super) enum Items<'a> {
    Messages(&'a [&'a Message]),
    Images(&'a [Image]),
    Bytes(&'a [u8]),
    /// Tool calls, and the index of the first one in its message.
    Calls(&'a [ToolCall], usize),
    Tools(&'a [Tool]),
    Strings(&'a [String]),
    /// The types of a property.
    Kinds(&'a [String]),
    Any(&'a [Json]),
    Properties(&'a [Property]),
}

/// A list. An absent one has no items, and is encoded as `null`.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a> {
    pub(super) items: Items<'a>,
    pub(super) is_nil: bool,
}

/// A map from texts to values. All iterate in the order of keys.
#[derive(Debug, Clone)]
pub(super) enum Map<'a> {
    /// The data of a rendering.
    Data(Rc<[(&'static str, Value<'a>)]>),
    Json(&'a Object<String, Json>),
    Arguments(Option<&'a Object<String, Json>>),
    Properties(Option<&'a [(String, Property)]>),
}

/// A structure, or a pointer to one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Struct<'a> {
    /// A pointer.
    Message(&'a Message),
    Call(&'a ToolCall, usize),
    CallFunction(&'a ToolCall, usize),
    Tool(&'a Tool),
    Function(&'a Function),
    Parameters(&'a Parameters),
    Property(&'a Property),
    /// A pointer to nested properties, in the client's order.
    NestedProperties(Option<&'a [(String, Property)]>),
}

/// A field of a structure.
pub(super) struct Field<'a> {
    pub(super) name: &'static str,
    /// The key in JSON.
    pub(super) key: &'static str,
    pub(super) omit: Omit,
    pub(super) value: Value<'a>,
}

/// Values of a field that JSON omits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Omit {
    Never,
    /// Empty texts and lists, and `nil`.
    Empty,
    /// Only `nil`: the field has the type `any`.
    Nil,
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(Text::Borrowed(text.as_bytes()))
    }
}

impl<'a> From<Vec<u8>> for Value<'a> {
    fn from(text: Vec<u8>) -> Self {
        Value::Text(Text::Shared(text.into()))
    }
}

impl<'a> From<String> for Value<'a> {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl<'a> From<&'a Json> for Value<'a> {
    /// Converts JSON as Go decodes it without a type: every number is a float.
    fn from(json: &'a Json) -> Self {
        match json {
            Json::Null => Value::Nil,
            Json::Bool(truth) => Value::Bool(*truth),
            Json::Number(number) => Value::Float(number.as_f64().unwrap_or_default()),
            Json::String(text) => text.as_str().into(),
            Json::Array(items) => Value::List(List { items: Items::Any(items), is_nil: false }),
            Json::Object(entries) => Value::Map(Map::Json(entries)),
        }
    }
}

impl<'a> Value<'a> {
    /// Returns the value without its `any`: `nil` becomes no value.
    pub(super) fn without_any(self) -> Self {
        if matches!(self, Value::Nil) { Value::None } else { self }
    }

    /// Returns whether conditions treat the value as true.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::None | Value::Nil => false,
            Value::Bool(truth) => *truth,
            Value::Int(number) => *number != 0,
            Value::Byte(number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Text(text) => !text.bytes().is_empty(),
            Value::List(list) => list.items.len() > 0,
            Value::Map(map) => map.len() > 0,
            Value::Struct(Struct::NestedProperties(properties)) => properties.is_some(),
            Value::Struct(_) => true,
        }
    }

    /// Returns whether the value is a `nil` of some type.
    pub(super) fn is_nil(&self) -> bool {
        match self {
            Value::None | Value::Nil | Value::Struct(Struct::NestedProperties(None)) => true,
            Value::List(list) => list.is_nil,
            Value::Map(map) => matches!(map, Map::Arguments(None) | Map::Properties(None)),
            _ => false,
        }
    }

    /// Returns the name of the type in Go.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Value::None | Value::Nil => "<nil>",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Byte(_) => "uint8",
            Value::Float(_) => "float64",
            Value::Text(_) => "string",
            Value::List(list) => match list.items {
                Items::Messages(_) => "[]*template.templateMessage",
                Items::Images(_) => "[]api.ImageData",
                Items::Bytes(_) => "api.ImageData",
                Items::Calls(..) => "[]template.templateToolCall",
                Items::Tools(_) => "template.templateTools",
                Items::Strings(_) => "[]string",
                Items::Kinds(_) => "api.PropertyType",
                Items::Any(_) => "[]interface {}",
                Items::Properties(_) => "[]api.ToolProperty",
            },
            Value::Map(Map::Data(_) | Map::Json(_)) => "map[string]interface {}",
            Value::Map(Map::Arguments(_)) => "template.templateArgs",
            Value::Map(Map::Properties(_)) => "template.templateProperties",
            Value::Struct(object) => match object {
                Struct::Message(_) => "*template.templateMessage",
                Struct::Call(..) => "template.templateToolCall",
                Struct::CallFunction(..) => "template.templateToolCallFunction",
                Struct::Tool(_) => "template.templateTool",
                Struct::Function(_) => "template.templateToolFunction",
                Struct::Parameters(_) => "template.templateToolFunctionParameters",
                Struct::Property(_) => "api.ToolProperty",
                Struct::NestedProperties(_) => "*api.ToolPropertiesMap",
            },
        }
    }
}

impl<'a> Text<'a> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Text::Borrowed(bytes) => bytes,
            Text::Shared(bytes) => bytes,
        }
    }

    /// Returns the bytes `from..to`, if the range is valid.
    pub(super) fn slice(&self, from: usize, to: usize) -> Option<Text<'a>> {
        Some(match self {
            Text::Borrowed(bytes) => Text::Borrowed(bytes.get(from..to)?),
            Text::Shared(bytes) => Text::Shared(bytes.get(from..to)?.into()),
        })
    }
}

/// Creates a list of a type with an absent form.
pub(super) fn list<'a, T>(items: Option<&'a [T]>, of: impl FnOnce(&'a [T]) -> Items<'a>) -> Value<'a> {
    Value::List(List { is_nil: items.is_none(), items: of(items.unwrap_or_default()) })
}

/// Creates a list that is absent if it is empty.
pub(super) fn list_or_nil<'a, T>(items: &'a [T], of: impl FnOnce(&'a [T]) -> Items<'a>) -> Value<'a> {
    list(Some(items).filter(|items| !items.is_empty()), of)
}

/// Creates the data of a rendering.
pub(super) fn data<'a>(entries: impl IntoIterator<Item = (&'static str, Value<'a>)>) -> Value<'a> {
    let mut entries: Vec<_> = entries.into_iter().collect();
    entries.sort_by_key(|(name, _)| *name);
    Value::Map(Map::Data(entries.into()))
}

impl<'a> Items<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Items::Messages(items) => items.len(),
            Items::Images(items) => items.len(),
            Items::Bytes(items) => items.len(),
            Items::Calls(items, _) => items.len(),
            Items::Tools(items) => items.len(),
            Items::Strings(items) | Items::Kinds(items) => items.len(),
            Items::Any(items) => items.len(),
            Items::Properties(items) => items.len(),
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<Value<'a>> {
        Some(match self {
            Items::Messages(items) => Value::Struct(Struct::Message(items.get(index)?)),
            Items::Images(items) => list(Some(&*items.get(index)?.bytes), Items::Bytes),
            Items::Bytes(items) => Value::Byte(*items.get(index)?),
            Items::Calls(items, first) => Value::Struct(Struct::Call(items.get(index)?, first + index)),
            Items::Tools(items) => Value::Struct(Struct::Tool(items.get(index)?)),
            Items::Strings(items) | Items::Kinds(items) => items.get(index)?.as_str().into(),
            Items::Any(items) => items.get(index)?.into(),
            Items::Properties(items) => Value::Struct(Struct::Property(items.get(index)?)),
        })
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Value<'a>> {
        (0..self.len()).filter_map(move |index| self.get(index))
    }

    /// Returns the items `from..to`, if the range is valid.
    pub(super) fn slice(&self, from: usize, to: usize) -> Option<Items<'a>> {
        Some(match self {
            Items::Messages(items) => Items::Messages(items.get(from..to)?),
            Items::Images(items) => Items::Images(items.get(from..to)?),
            Items::Bytes(items) => Items::Bytes(items.get(from..to)?),
            Items::Calls(items, first) => Items::Calls(items.get(from..to)?, first + from),
            Items::Tools(items) => Items::Tools(items.get(from..to)?),
            Items::Strings(items) => Items::Strings(items.get(from..to)?),
            Items::Kinds(items) => Items::Kinds(items.get(from..to)?),
            Items::Any(items) => Items::Any(items.get(from..to)?),
            Items::Properties(items) => Items::Properties(items.get(from..to)?),
        })
    }
}

impl<'a> Map<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Map::Data(entries) => entries.len(),
            Map::Json(object) => object.len(),
            Map::Arguments(object) => object.map_or(0, Object::len),
            Map::Properties(properties) => properties.map_or(0, <[_]>::len),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Value<'a>> {
        match self {
            Map::Data(entries) => entries.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone()),
            Map::Json(object) => object.get(key).map(Value::from),
            Map::Arguments(object) => object.and_then(|object| object.get(key)).map(Value::from),
            Map::Properties(properties) => {
                let properties = properties.unwrap_or_default();
                let index = properties.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()?;
                properties.get(index).map(|(_, property)| Value::Struct(Struct::Property(property)))
            }
        }
    }

    /// Returns the value of a missing key.
    pub(super) fn zero(&self) -> Value<'a> {
        match self {
            Map::Properties(_) => Value::Struct(Struct::Property(&EMPTY_PROPERTY)),
            _ => Value::Nil,
        }
    }

    /// Returns the entries in the order of keys.
    pub(super) fn entries(&self) -> Vec<(&'a str, Value<'a>)> {
        let of_object = |object: &'a Object<String, Json>| {
            let mut entries: Vec<_> = object.iter().map(|(key, json)| (key.as_str(), Value::from(json))).collect();
            entries.sort_by_key(|(key, _)| *key);
            entries
        };
        match self {
            Map::Data(entries) => entries.iter().map(|(key, value)| (*key, value.clone())).collect(),
            Map::Json(object) => of_object(object),
            Map::Arguments(object) => object.map(of_object).unwrap_or_default(),
            Map::Properties(properties) => {
                let of_property = |property| Value::Struct(Struct::Property(property));
                properties.unwrap_or_default().iter().map(|(key, p)| (key.as_str(), of_property(p))).collect()
            }
        }
    }
}

impl<'a> Struct<'a> {
    /// Returns the exported fields, in order.
    pub(super) fn fields(&self) -> Vec<Field<'a>> {
        let plain = |name, value| Field { name, key: name, omit: Omit::Never, value };
        let tagged = |name, key, value| Field { name, key, omit: Omit::Never, value };
        let optional = |name, key, value| Field { name, key, omit: Omit::Empty, value };
        let any = |name, key, json: &'a Json| Field { name, key, omit: Omit::Nil, value: json.into() };
        let some = |text: &'a Option<String>| Value::from(text.as_deref().unwrap_or_default());
        match *self {
            Struct::Message(message) => vec![
                plain("Role", message.role.as_str().into()),
                plain("Content", message.content.as_str().into()),
                plain("Thinking", some(&message.thinking)),
                plain("Images", list_or_nil(&message.images, Items::Images)),
                plain("ToolCalls", list_or_nil(&message.tool_calls, |calls| Items::Calls(calls, 0))),
                plain("ToolName", some(&message.tool_name)),
                plain("ToolCallID", some(&message.tool_call_id)),
            ],
            Struct::Call(call, index) => {
                vec![plain("ID", some(&call.id)), plain("Function", Value::Struct(Struct::CallFunction(call, index)))]
            }
            Struct::CallFunction(call, index) => vec![
                plain("Index", Value::Int(i64::try_from(index).unwrap_or(i64::MAX))),
                plain("Name", call.name.as_str().into()),
                // Arguments that are not an object are dropped.
                plain("Arguments", Value::Map(Map::Arguments(call.arguments.as_object()))),
            ],
            Struct::Tool(tool) => vec![
                tagged("Type", "type", tool.kind.as_str().into()),
                any("Items", "items", &tool.items),
                tagged("Function", "function", Value::Struct(Struct::Function(&tool.function))),
            ],
            Struct::Function(function) => vec![
                tagged("Name", "name", function.name.as_str().into()),
                tagged("Description", "description", function.description.as_str().into()),
                tagged("Parameters", "parameters", Value::Struct(Struct::Parameters(&function.parameters))),
            ],
            Struct::Parameters(parameters) => vec![
                tagged("Type", "type", parameters.kind.as_str().into()),
                any("Defs", "$defs", &parameters.definitions),
                any("Items", "items", &parameters.items),
                optional("Required", "required", list(parameters.required.as_deref(), Items::Strings)),
                tagged("Properties", "properties", Value::Map(Map::Properties(parameters.properties.as_deref()))),
            ],
            Struct::Property(property) => vec![
                optional("AnyOf", "anyOf", list(property.any_of.as_deref(), Items::Properties)),
                optional("Type", "type", list(property.kinds.as_deref(), Items::Kinds)),
                any("Items", "items", &property.items),
                optional("Description", "description", property.description.as_str().into()),
                optional("Enum", "enum", list(property.values.as_deref(), Items::Any)),
                optional(
                    "Properties",
                    "properties",
                    Value::Struct(Struct::NestedProperties(property.properties.as_deref())),
                ),
                optional("Required", "required", list(property.required.as_deref(), Items::Strings)),
            ],
            Struct::NestedProperties(_) => Vec::new(),
        }
    }

    /// Returns the field of a name.
    pub(super) fn field(&self, name: &str) -> Option<Value<'a>> {
        self.fields().into_iter().find(|field| field.name == name).map(|field| field.value)
    }
}
