//! Converts the text of a parameter to the type that the tool's schema requires.

use serde_json::{Number, Value};

use super::json;

/// Maximum nesting of `anyOf`.
const MAX_DEPTH: usize = 8;

/// Converts the text of a parameter. Without a type in the schema, or if the text has none of its types, the result is
/// a string. `null` is always null.
pub(super) fn coerce(text: &str, schema: Option<&Value>) -> Value {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    let word = text.trim();
    if word.eq_ignore_ascii_case("null") {
        return Value::Null;
    }
    let mut types = Vec::new();
    if let Some(schema) = schema {
        collect_types(schema, &mut types, 0);
    }
    let boolean = || match word {
        _ if word.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
        _ if word.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
        _ => (types == ["boolean"]).then_some(Value::Bool(false)),
    };
    let nested = |fits: fn(&Value) -> bool| {
        let (value, after) = json::first_value(word)?;
        (fits(&value) && after.trim().is_empty()).then_some(value)
    };
    let typed = |name: &str| match name {
        "boolean" => boolean(),
        "integer" => integer(word),
        "number" => integer(word).or_else(|| number(word)),
        "array" => nested(Value::is_array),
        _ => nested(Value::is_object),
    };
    let tried = ["boolean", "integer", "number", "array", "object"].into_iter().filter(|name| types.contains(name));
    tried.into_iter().find_map(typed).unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Adds the types of a schema and of its alternatives.
fn collect_types<'s>(schema: &'s Value, types: &mut Vec<&'s str>, depth: usize) {
    match schema.get("type") {
        Some(Value::String(name)) => types.push(name),
        Some(Value::Array(names)) => types.extend(names.iter().filter_map(Value::as_str)),
        _ => {}
    }
    if depth < MAX_DEPTH {
        let alternatives = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten();
        alternatives.for_each(|schema| collect_types(schema, types, depth + 1));
    }
}

fn integer(word: &str) -> Option<Value> {
    let small = word.parse::<i64>().map(Number::from);
    small.or_else(|_| word.parse::<u64>().map(Number::from)).ok().map(Value::Number)
}

/// Parses a number. A number without fraction becomes an integer.
fn number(word: &str) -> Option<Value> {
    let number: f64 = word.parse().ok()?;
    let is_exact = number.fract() == 0.0 && number.abs() < 2_f64.powi(53);
    #[expect(clippy::cast_possible_truncation, reason = "the number is an integer below 2^53")]
    let number = if is_exact { Some(Number::from(number as i64)) } else { Number::from_f64(number) };
    number.map(Value::Number)
}
