//! Go's printing and JSON encoding of values.
//!
//! Some Go types of Ollama print as JSON: the list of tools, a tool, its parameters, the arguments of a call. The
//! engine's values have no such types, so [`JsonTexts`] identifies these values by the address of their shared content.
//!
//! Spec: <https://pkg.go.dev/fmt>, <https://pkg.go.dev/encoding/json#Marshal>.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use gotmpl::Value;
use serde_json::Value as Json;

/// JSON texts of values that print as JSON, by the address of their shared content. The values must outlive this map,
/// so that no other value gets the same address.
#[derive(Debug, Default)]
pub(super) struct JsonTexts(HashMap<usize, Arc<str>>);

impl JsonTexts {
    /// Makes a list or a map print as JSON.
    pub(super) fn insert(&mut self, value: &Value, json: &Json) {
        if let Some(address) = address(value) {
            let mut text = String::new();
            write_json(&mut text, json);
            self.0.insert(address, text.into());
        }
    }

    fn get(&self, value: &Value) -> Option<&Arc<str>> {
        self.0.get(&address(value)?)
    }

    /// Returns the JSON text of a value that prints as JSON, else the value.
    pub(super) fn substitute(&self, value: &Value) -> Value {
        self.get(value).map_or_else(|| value.clone(), |text| Value::String(Arc::clone(text)))
    }

    /// Appends a value as `print` formats it.
    pub(super) fn write(&self, out: &mut String, value: &Value) {
        if let Some(text) = self.get(value) {
            out.push_str(text);
            return;
        }
        match value {
            Value::Nil => out.push_str("<nil>"),
            Value::String(text) => out.push_str(text),
            Value::Float(number) => out.push_str(&float(*number)),
            Value::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { " " } else { "" });
                    self.write(out, item);
                }
                out.push(']');
            }
            Value::Map(entries) => {
                out.push_str("map[");
                for (index, (key, item)) in entries.iter().enumerate() {
                    out.push_str(if index > 0 { " " } else { "" });
                    out.push_str(key);
                    out.push(':');
                    self.write(out, item);
                }
                out.push(']');
            }
            other => out.push_str(&other.to_string()),
        }
    }

    /// Appends a value as `json` encodes it.
    pub(super) fn write_json(&self, out: &mut String, value: &Value) {
        if let Some(text) = self.get(value) {
            out.push_str(text);
            return;
        }
        match value {
            Value::Nil => out.push_str("null"),
            Value::String(text) => write_string(out, text),
            Value::Float(number) => out.push_str(&json_float(*number)),
            Value::List(items) => list(out, items.iter(), |out, item| self.write_json(out, item)),
            Value::Map(entries) => {
                let entries = entries.iter().map(|(key, item)| (&**key, item));
                map(out, entries, |out, item| self.write_json(out, item));
            }
            other => out.push_str(&other.to_string()),
        }
    }

    /// Upper bound of a value's printed size in bytes. JSON is at most [`JSON_GROWTH`] times as long.
    pub(super) fn bytes(&self, value: &Value) -> u64 {
        if let Some(text) = self.get(value) {
            return text.len() as u64;
        }
        match value {
            Value::String(text) => text.len() as u64 + 2,
            Value::List(items) => items.iter().fold(8, |sum, item| sum + 1 + self.bytes(item)),
            Value::Map(entries) => {
                entries.iter().fold(8, |sum, (key, item)| sum + 4 + key.len() as u64 + self.bytes(item))
            }
            // Large enough for a float in JSON, without an exponent.
            _ => 32,
        }
    }
}

/// Maximum growth by JSON escaping: one byte as `\u0000`.
pub(super) const JSON_GROWTH: u64 = 6;

fn address(value: &Value) -> Option<usize> {
    match value {
        Value::List(items) => Some(Arc::as_ptr(items).cast::<Value>().addr()),
        Value::Map(entries) => Some(Arc::as_ptr(entries).addr()),
        _ => None,
    }
}

/// Appends JSON as Go's encoder writes it: without spaces, and with HTML's special characters escaped.
pub(super) fn write_json(out: &mut String, value: &Json) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Json::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(number) => out.push_str(&json_float(number)),
            None => out.push_str(&number.to_string()),
        },
        Json::String(text) => write_string(out, text),
        Json::Array(items) => list(out, items.iter(), write_json),
        Json::Object(entries) => map(out, entries.iter().map(|(key, item)| (key.as_str(), item)), write_json),
    }
}

fn list<'a, T: 'a>(out: &mut String, items: impl Iterator<Item = &'a T>, write: impl Fn(&mut String, &T)) {
    out.push('[');
    for (index, item) in items.enumerate() {
        out.push_str(if index > 0 { "," } else { "" });
        write(out, item);
    }
    out.push(']');
}

fn map<'a, T: 'a>(out: &mut String, entries: impl Iterator<Item = (&'a str, &'a T)>, write: impl Fn(&mut String, &T)) {
    out.push('{');
    for (index, (key, item)) in entries.enumerate() {
        out.push_str(if index > 0 { "," } else { "" });
        write_string(out, key);
        out.push(':');
        write(out, item);
    }
    out.push('}');
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{0}'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                // Writing into a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

/// Formats a float as `%v`: shortest digits, with an exponent from `1e+06` on and below `0.0001`.
fn float(number: f64) -> String {
    match number {
        _ if number.is_nan() => return "NaN".to_owned(),
        _ if number.is_infinite() => return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        _ => {}
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
    }
    format!("{number}")
}

/// Formats a float for JSON: without an exponent between `1e-6` and `1e21`.
fn json_float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        return match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
            _ => text,
        };
    }
    format!("{number}")
}
