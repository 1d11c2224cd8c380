//! Go's JSON encoding of values.
//!
//! Structures have their fields in order, maps their keys sorted. HTML's special characters are escaped.
//!
//! Spec: <https://pkg.go.dev/encoding/json#Marshal>.

use super::values::{Field, Items, List, Map, Omit, Struct, Value};

/// Maximum growth by escaping: one byte as `\u0000`.
pub(super) const GROWTH: u64 = 6;

/// Appends a value as JSON. Returns `None` if it has none, such as an infinite number.
#[must_use]
pub(super) fn write(out: &mut Vec<u8>, value: &Value<'_>) -> Option<()> {
    match value {
        Value::None | Value::Nil | Value::Struct(Struct::NestedProperties(None)) => out.extend(b"null"),
        Value::Bool(truth) => out.extend(truth.to_string().bytes()),
        Value::Int(number) => out.extend(number.to_string().bytes()),
        Value::Byte(number) => out.extend(number.to_string().bytes()),
        Value::Float(number) => out.extend(float(*number)?.bytes()),
        Value::Text(text) => write_text(out, text.bytes()),
        Value::List(list) => write_list(out, list)?,
        Value::Map(map) => match map {
            Map::Arguments(None) | Map::Properties(None) => out.extend(b"null"),
            map => write_object(out, map.entries().into_iter())?,
        },
        Value::Struct(Struct::NestedProperties(Some(properties))) => {
            let entries = properties.iter().map(|(key, property)| (&**key, Value::Struct(Struct::Property(property))));
            write_object(out, entries)?;
        }
        Value::Struct(object) => {
            let fields = object.fields().into_iter().filter(|field| !is_omitted(field));
            write_object(out, fields.map(|field| (field.key, field.value)))?;
        }
    }
    Some(())
}

fn is_omitted(field: &Field<'_>) -> bool {
    match (field.omit, &field.value) {
        (Omit::Never, _) => false,
        (Omit::Empty, Value::Text(text)) => text.bytes().is_empty(),
        (Omit::Empty, Value::List(list)) => list.items.len() == 0,
        (Omit::Empty | Omit::Nil, value) => value.is_nil(),
    }
}

fn write_list(out: &mut Vec<u8>, list: &List<'_>) -> Option<()> {
    match list.items {
        _ if list.is_nil && !matches!(list.items, Items::Kinds(_)) => out.extend(b"null"),
        Items::Bytes(bytes) => {
            out.push(b'"');
            write_base64(out, bytes);
            out.push(b'"');
        }
        Items::Kinds([kind]) => write_text(out, kind.as_bytes()),
        Items::Kinds(_) if list.is_nil => out.extend(b"null"),
        items => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(out, &item)?;
            }
            out.push(b']');
        }
    }
    Some(())
}

fn write_object<'a>(out: &mut Vec<u8>, entries: impl Iterator<Item = (&'a str, Value<'a>)>) -> Option<()> {
    out.push(b'{');
    for (index, (key, value)) in entries.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_text(out, key.as_bytes());
        out.push(b':');
        write(out, &value)?;
    }
    out.push(b'}');
    Some(())
}

/// Appends a quoted text. Every byte that is not UTF-8 becomes U+FFFD.
fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' => out.extend(b"\\\""),
                '\\' => out.extend(b"\\\\"),
                '\n' => out.extend(b"\\n"),
                '\r' => out.extend(b"\\r"),
                '\t' => out.extend(b"\\t"),
                '\u{8}' => out.extend(b"\\b"),
                '\u{c}' => out.extend(b"\\f"),
                '<' | '>' | '&' | '\u{0}'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                    out.extend(format!("\\u{:04x}", u32::from(letter)).bytes());
                }
                letter => out.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        for _ in chunk.invalid() {
            out.extend(b"\\ufffd");
        }
    }
    out.push(b'"');
}

fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit) & 63) as usize;
            let letter = DIGITS.get(index).copied().filter(|_| digit <= chunk.len());
            out.push(letter.unwrap_or(b'='));
        }
    }
}

/// Formats a float: without an exponent between `1e-6` and `1e21`. Returns `None` for infinities and NaN.
fn float(number: f64) -> Option<String> {
    let size = number.abs();
    Some(match size {
        _ if !size.is_finite() => return None,
        _ if size != 0.0 && !(1e-6..1e21).contains(&size) => {
            let text = format!("{number:e}");
            match text.split_once('e') {
                Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
                _ => text,
            }
        }
        _ => format!("{number}"),
    })
}
