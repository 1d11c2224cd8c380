//! Checks the values of keywords that have no subschemas.

use serde_json::{Map, Value};

use super::position::Position;
use super::shape::Type;
use crate::error::Error;
use crate::limits::{MAX_COUNT, MAX_DEPTH, MAX_NUMBER, MAX_PROPERTIES, schema_at_most};

/// Names of the types, and whether only integers are meant.
const TYPES: [(&str, Type, bool); 7] = [
    ("null", Type::Null, false),
    ("boolean", Type::Boolean, false),
    ("object", Type::Object, false),
    ("array", Type::Array, false),
    ("number", Type::Number, false),
    ("integer", Type::Number, true),
    ("string", Type::Text, false),
];

/// Longest decimal notation of a number.
const MAX_DIGITS: usize = 24;

/// The types of `type`, and whether numbers are integers.
pub(super) fn types(value: &Value, position: &Position) -> Result<Vec<(Type, bool)>, Error> {
    let kind =
        |name: &Value| TYPES.iter().find(|(text, ..)| name == text).map(|(_, kind, is_integer)| (*kind, *is_integer));
    let types: Option<Vec<(Type, bool)>> = match value {
        Value::Array(names) => names.iter().map(kind).collect(),
        name => kind(name).map(|kind| vec![kind]),
    };
    let mut types = types.filter(|types| !types.is_empty());
    // Any number may be an integer.
    if let Some(types) = &mut types
        && types.contains(&(Type::Number, false))
    {
        types.retain(|kind| *kind != (Type::Number, true));
    }
    types.ok_or_else(|| position.invalid("type", "not one of the seven types, or a list of them"))
}

/// The texts of `required` or of a dependency.
pub(super) fn names<'a>(
    keyword: &str,
    value: &'a Value,
    position: &Position,
) -> Result<impl Iterator<Item = &'a str>, Error> {
    let names = value.as_array().filter(|names| names.iter().all(Value::is_string));
    let names = names.ok_or_else(|| position.invalid(keyword, "not a list of texts"))?;
    schema_at_most("required properties of an object", names.len(), MAX_PROPERTIES)?;
    Ok(names.iter().filter_map(Value::as_str))
}

/// The members of an object of schemas.
pub(super) fn object<'a>(
    keyword: &str,
    value: &'a Value,
    position: &Position,
) -> Result<impl Iterator<Item = (&'a String, &'a Value)>, Error> {
    let members = value.as_object().ok_or_else(|| position.invalid(keyword, "not an object"))?;
    schema_at_most("properties of an object", members.len(), MAX_PROPERTIES)?;
    Ok(members.iter())
}

/// Whether a schema accepts everything.
pub(super) fn is_any(schema: &Value) -> bool {
    *schema == Value::Bool(true) || schema.as_object().is_some_and(Map::is_empty)
}

/// The value of a minimum or maximum count.
pub(super) fn count(keyword: &str, value: Option<&Value>, position: &Position) -> Result<Option<u64>, Error> {
    let Some(value) = value else { return Ok(None) };
    let count = value.as_u64().or_else(|| {
        let whole = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..=MAX_NUMBER).contains(number));
        whole.map(|number| number as u64)
    });
    let count = count.ok_or_else(|| position.invalid(keyword, "not a whole number from 0"))?;
    if count > MAX_COUNT {
        return Err(position.unsupported(keyword, &format!("at most {MAX_COUNT} are")));
    }
    Ok(Some(count))
}

/// The value of a bound of numbers; none for a boolean of draft 4, where `exclusiveMinimum` changes `minimum`.
pub(super) fn number(keyword: &str, value: &Value, position: &Position) -> Result<Option<f64>, Error> {
    if value.is_boolean() && keyword.starts_with("exclusive") {
        return Ok(None);
    }
    let Some(number) = value.as_f64() else { return Err(position.invalid(keyword, "not a number")) };
    check_number(value, keyword, position)?;
    if keyword == "multipleOf" && number <= 0.0 {
        return Err(position.invalid(keyword, "not above 0"));
    }
    Ok(Some(number))
}

/// Refuses numbers that are not exact.
fn check_number(value: &Value, keyword: &str, position: &Position) -> Result<(), Error> {
    let is_exact =
        value.as_f64().is_some_and(|number| number.abs() <= MAX_NUMBER && number.to_string().len() <= MAX_DIGITS);
    if is_exact { Ok(()) } else { Err(position.unsupported(keyword, "numbers from 2^53, or with too many digits")) }
}

/// The values of `enum`.
pub(super) fn constants<'a>(value: &'a Value, position: &Position) -> Result<impl Iterator<Item = &'a Value>, Error> {
    let values = value.as_array().filter(|values| !values.is_empty());
    Ok(values.ok_or_else(|| position.invalid("enum", "not a list, or an empty one"))?.iter())
}

/// Checks a value that an answer may have to contain.
pub(super) fn check_constant(value: &Value, keyword: &str, position: &Position) -> Result<(), Error> {
    let mut open = vec![(value, position.depth)];
    while let Some((value, depth)) = open.pop() {
        schema_at_most("levels of nesting", depth, MAX_DEPTH)?;
        match value {
            Value::Number(_) => check_number(value, keyword, position)?,
            Value::String(text) => check_text(text, keyword, position)?,
            Value::Array(items) => {
                schema_at_most("items of a constant", items.len(), MAX_PROPERTIES)?;
                open.extend(items.iter().map(|item| (item, depth + 1)));
            }
            Value::Object(properties) => {
                schema_at_most("properties of a constant", properties.len(), MAX_PROPERTIES)?;
                open.extend(properties.values().map(|value| (value, depth + 1)));
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
    Ok(())
}

/// Refuses texts that need an escape by number, see `json::ESCAPES`.
fn check_text(text: &str, keyword: &str, position: &Position) -> Result<(), Error> {
    let needs_number = |char: char| char.is_ascii_control() && !matches!(char, '\n' | '\r' | '\t' | '\u{8}' | '\u{c}');
    match text.contains(needs_number) {
        true => Err(position.unsupported(keyword, "a text with a control character")),
        false => Ok(()),
    }
}
