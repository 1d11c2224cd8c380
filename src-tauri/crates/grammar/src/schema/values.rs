//! Checks the values of keywords that have no subschemas.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::place::Place;
use crate::error::Error;
use crate::limits::{MAX_COUNT, MAX_DEPTH, MAX_NUMBER, MAX_PROPERTIES, at_most};

const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];

/// Longest decimal notation of a number.
const MAX_DIGITS: usize = 24;

/// The value of `type`.
pub(super) fn types(value: &Value, place: &Place) -> Result<Value, Error> {
    let is_type = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    let is_valid = match value {
        Value::Array(names) => !names.is_empty() && names.iter().all(is_type),
        name => is_type(name),
    };
    if is_valid {
        Ok(value.clone())
    } else {
        Err(place.invalid("type", "not one of the seven types, or a list of them"))
    }
}

/// The value of `required`.
pub(super) fn required(value: &Value, place: &Place) -> Result<Value, Error> {
    let names = value.as_array().filter(|names| names.iter().all(Value::is_string));
    let names = names.ok_or_else(|| place.invalid("required", "not a list of texts"))?;
    at_most("number of required properties in the JSON schema", names.len(), MAX_PROPERTIES)?;
    Ok(value.clone())
}

/// The value of a minimum or maximum count; none if it never matters.
pub(super) fn count(keyword: &str, value: &Value, place: &Place) -> Result<Option<Value>, Error> {
    let count = value.as_u64().or_else(|| {
        let whole = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..=MAX_NUMBER).contains(number));
        whole.map(|number| number as u64)
    });
    let count = count.ok_or_else(|| place.invalid(keyword, "not a whole number from 0"))?;
    if count == 0 && keyword.starts_with("min") {
        return Ok(None);
    }
    if count > MAX_COUNT {
        return Err(place.unsupported(keyword, &format!("at most {MAX_COUNT} are")));
    }
    Ok(Some(json!(count)))
}

/// The value of a bound of numbers.
pub(super) fn number(keyword: &str, value: &Value, place: &Place) -> Result<Value, Error> {
    // In draft 4, `exclusiveMinimum` is a boolean that changes `minimum`.
    if value.is_boolean() && keyword.starts_with("exclusive") {
        return Ok(value.clone());
    }
    if !value.is_number() {
        return Err(place.invalid(keyword, "not a number"));
    }
    check_number(value, keyword, place)?;
    if keyword == "multipleOf" && value.as_f64().is_none_or(|factor| factor <= 0.0) {
        return Err(place.invalid(keyword, "not above 0"));
    }
    Ok(value.clone())
}

/// Refuses numbers that are not exact.
fn check_number(value: &Value, keyword: &str, place: &Place) -> Result<(), Error> {
    let is_exact =
        value.as_f64().is_some_and(|number| number.abs() <= MAX_NUMBER && number.to_string().len() <= MAX_DIGITS);
    if is_exact { Ok(()) } else { Err(place.unsupported(keyword, "numbers from 2^53, or with too many digits")) }
}

/// Checks the value of `enum`.
pub(super) fn check_enum(value: &Value, place: &Place) -> Result<(), Error> {
    let values = value.as_array().filter(|values| !values.is_empty());
    let values = values.ok_or_else(|| place.invalid("enum", "not a list, or an empty one"))?;
    values.iter().try_for_each(|value| check_constant(value, "enum", place))
}

/// Checks a value that an answer may have to contain.
pub(super) fn check_constant(value: &Value, keyword: &str, place: &Place) -> Result<(), Error> {
    let mut open = vec![(value, place.depth)];
    while let Some((value, depth)) = open.pop() {
        at_most("nesting of the JSON schema", depth, MAX_DEPTH)?;
        match value {
            Value::Number(_) => check_number(value, keyword, place)?,
            Value::String(text) => check_text(text, keyword, place)?,
            Value::Array(items) => {
                at_most("number of items of a constant in the JSON schema", items.len(), MAX_PROPERTIES)?;
                open.extend(items.iter().map(|item| (item, depth + 1)));
            }
            Value::Object(properties) => {
                at_most("number of properties of a constant in the JSON schema", properties.len(), MAX_PROPERTIES)?;
                open.extend(properties.values().map(|value| (value, depth + 1)));
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
    Ok(())
}

/// Refuses texts that need an escape by number, see `constraint::ESCAPES`.
fn check_text(text: &str, keyword: &str, place: &Place) -> Result<(), Error> {
    let needs_number = |char: char| char.is_ascii_control() && !matches!(char, '\n' | '\r' | '\t' | '\u{8}' | '\u{c}');
    match text.contains(needs_number) {
        true => Err(place.unsupported(keyword, "a text with a control character")),
        false => Ok(()),
    }
}

/// Checks a minimum number of properties: an object could have the same property twice, which counts only once.
pub(super) fn check_properties(keywords: &Map<String, Value>, place: &Place) -> Result<(), Error> {
    let minimum = keywords.get("minProperties").and_then(Value::as_f64).unwrap_or(0.0) as usize;
    let required = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
    let required = required.filter_map(Value::as_str).collect::<HashSet<_>>().len();
    let is_closed = keywords.get("additionalProperties") == Some(&Value::Bool(false))
        && keywords.get("patternProperties").and_then(Value::as_object).is_none_or(Map::is_empty);
    if minimum > required + 1 && !is_closed {
        return Err(place.unsupported("minProperties", "more than one property that is not required"));
    }
    Ok(())
}
