//! Go's printing of values: `fmt.Sprint`, and the verbs of `fmt.Sprintf` for one value.
//!
//! A value with a method `String` prints as its result, also inside other values. A nested pointer prints as an address
//! in Go, which differs between runs; here it is a constant.
//!
//! Spec: <https://pkg.go.dev/fmt>.

use super::json;
use super::number::{Spec, float, integer, letters, pad, quote_letter};
use super::values::{Items, List, Map, Struct, Value};

/// The address that nested pointers print as.
const ADDRESS: i64 = 0xc0_0001_2345;

/// Returns the result of the method `String`, if the value has one.
pub(super) fn string_method(value: &Value<'_>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match value {
        Value::List(List { items: Items::Kinds(kinds), .. }) => match kinds {
            [] => {}
            [kind] => out.extend(kind.bytes()),
            kinds => out.extend(format!("[{}]", kinds.join(" ")).bytes()),
        },
        Value::Map(Map::Arguments(None) | Map::Properties(None)) => out.extend(b"{}"),
        Value::List(List { items: Items::Tools(_), .. })
        | Value::Struct(Struct::Tool(_))
        | Value::Map(Map::Arguments(_) | Map::Properties(_)) => {
            // Values without JSON print as nothing.
            if json::write(&mut out, value).is_none() {
                out.clear();
            }
        }
        _ => return None,
    }
    Some(out)
}

/// Appends a value as an action prints it, or as an operand of `print` if it `is_operand`.
pub(super) fn print(out: &mut Vec<u8>, value: &Value<'_>, is_operand: bool) {
    match value {
        Value::Text(text) => out.extend(text.bytes()),
        Value::None if !is_operand => out.extend(b"<no value>"),
        // An action follows pointers.
        Value::Struct(Struct::Message(_)) if !is_operand => nested(out, value, 'v', &Spec::default()),
        value => format(out, value, 'v', &Spec::default()),
    }
}

/// Formats one operand by a verb.
pub(super) fn format(out: &mut Vec<u8>, value: &Value<'_>, verb: char, spec: &Spec) {
    match (value, verb) {
        (Value::None | Value::Nil, 'T' | 'v') => pad(out, spec, b"<nil>"),
        (_, 'T') => pad(out, spec, value.type_name().as_bytes()),
        (Value::List(List { items: Items::Bytes(bytes), .. }), 's' | 'x' | 'X' | 'q') => {
            text(out, bytes, verb, spec, value)
        }
        (Value::Struct(Struct::Message(_)), _) => {
            out.push(b'&');
            nested(out, value, verb, spec);
        }
        _ => printed(out, value, verb, spec, true),
    }
}

/// Formats a value that may be inside another one.
fn printed(out: &mut Vec<u8>, value: &Value<'_>, verb: char, spec: &Spec, is_operand: bool) {
    if matches!(verb, 'v' | 's' | 'x' | 'X' | 'q')
        && !spec.is_go_syntax
        && let Some(result) = string_method(value)
    {
        return text(out, &result, verb, spec, value);
    }
    match value {
        Value::None | Value::Nil if is_operand => bad_verb(out, value, verb),
        Value::None | Value::Nil => out.extend(b"<nil>"),
        Value::Struct(Struct::Message(_) | Struct::NestedProperties(_)) => pointer(out, value, verb, spec),
        value => nested(out, value, verb, spec),
    }
}

/// Formats a pointer as an address.
fn pointer(out: &mut Vec<u8>, value: &Value<'_>, verb: char, spec: &Spec) {
    let address = if value.is_nil() { 0 } else { ADDRESS };
    match verb {
        'v' if value.is_nil() => pad(out, spec, b"<nil>"),
        'v' | 'p' => pad(out, spec, format!("{address:#x}").as_bytes()),
        'b' | 'o' | 'd' | 'x' | 'X' => {
            if integer(out, address, verb, spec).is_none() {
                bad_verb(out, value, verb);
            }
        }
        _ => bad_verb(out, value, verb),
    }
}

/// Formats the content of a value, without methods.
fn nested(out: &mut Vec<u8>, value: &Value<'_>, verb: char, spec: &Spec) {
    match value {
        Value::Bool(truth) if matches!(verb, 't' | 'v') => pad(out, spec, truth.to_string().as_bytes()),
        Value::Int(number) => {
            if integer(out, *number, verb, spec).is_none() {
                bad_verb(out, value, verb);
            }
        }
        Value::Byte(number) => {
            if integer(out, i64::from(*number), verb, spec).is_none() {
                bad_verb(out, value, verb);
            }
        }
        Value::Float(number) => {
            if float(out, *number, verb, spec).is_none() {
                bad_verb(out, value, verb);
            }
        }
        Value::Text(content) => text(out, content.bytes(), verb, spec, value),
        Value::List(List { items: Items::Bytes(bytes), .. }) if matches!(verb, 's' | 'x' | 'X' | 'q') => {
            text(out, bytes, verb, spec, value);
        }
        Value::List(list) => {
            out.push(b'[');
            for (index, item) in list.items.iter().enumerate() {
                if index > 0 {
                    out.push(b' ');
                }
                printed(out, &item, verb, spec, false);
            }
            out.push(b']');
        }
        Value::Map(map) => {
            out.extend(b"map[");
            for (index, (key, item)) in map.entries().iter().enumerate() {
                if index > 0 {
                    out.push(b' ');
                }
                text(out, key.as_bytes(), verb, spec, &Value::from(*key));
                out.push(b':');
                printed(out, item, verb, spec, false);
            }
            out.push(b']');
        }
        Value::Struct(object) => {
            out.push(b'{');
            for (index, field) in object.fields().iter().enumerate() {
                if index > 0 {
                    out.push(b' ');
                }
                if spec.has_names {
                    out.extend(field.name.bytes());
                    out.push(b':');
                }
                printed(out, &field.value, verb, spec, false);
            }
            out.push(b'}');
        }
        Value::None | Value::Nil | Value::Bool(_) => bad_verb(out, value, verb),
    }
}

/// Formats bytes by a verb for texts.
fn text(out: &mut Vec<u8>, bytes: &[u8], verb: char, spec: &Spec, value: &Value<'_>) {
    match verb {
        'v' if spec.is_go_syntax => quoted(out, bytes, spec),
        'v' | 's' => pad(out, spec, truncated(bytes, spec)),
        'q' => quoted(out, truncated(bytes, spec), spec),
        'x' | 'X' => hexadecimal(out, bytes, verb, spec),
        _ => bad_verb(out, value, verb),
    }
}

/// Returns the characters up to the precision.
fn truncated<'t>(bytes: &'t [u8], spec: &Spec) -> &'t [u8] {
    let Some(precision) = spec.precision else { return bytes };
    let end = letters(bytes).nth(precision).map_or(bytes.len(), |(offset, _)| offset);
    bytes.get(..end).unwrap_or(bytes)
}

fn quoted(out: &mut Vec<u8>, bytes: &[u8], spec: &Spec) {
    let is_plain = |(_, letter): (usize, Option<char>)| {
        letter.is_some_and(|letter| (letter == '\t' || letter >= ' ') && !matches!(letter, '`' | '\u{7f}' | '\u{feff}'))
    };
    if spec.is_alternate && letters(bytes).all(is_plain) {
        let mut raw = vec![b'`'];
        raw.extend(bytes);
        raw.push(b'`');
        return pad(out, spec, &raw);
    }
    let mut text = vec![b'"'];
    for (offset, letter) in letters(bytes) {
        match letter {
            Some(letter) => quote_letter(&mut text, letter, '"', spec.has_sign),
            None => text.extend(format!("\\x{:02x}", bytes.get(offset).copied().unwrap_or_default()).bytes()),
        }
    }
    text.push(b'"');
    pad(out, spec, &text);
}

fn hexadecimal(out: &mut Vec<u8>, bytes: &[u8], verb: char, spec: &Spec) {
    let bytes = bytes.get(..spec.precision.unwrap_or(usize::MAX).min(bytes.len())).unwrap_or(bytes);
    let prefix: &[u8] = match verb {
        'x' if spec.is_alternate => b"0x",
        _ if spec.is_alternate => b"0X",
        _ => b"",
    };
    let mut text = Vec::new();
    for (index, byte) in bytes.iter().enumerate() {
        if index > 0 && spec.has_space {
            text.push(b' ');
        }
        if index == 0 || spec.has_space {
            text.extend(prefix);
        }
        text.extend(if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") }.bytes());
    }
    pad(out, spec, &text);
}

/// Appends what Go prints for a verb that does not fit the value.
fn bad_verb(out: &mut Vec<u8>, value: &Value<'_>, verb: char) {
    out.extend(format!("%!{verb}(").bytes());
    match value {
        Value::None | Value::Nil => out.extend(b"<nil>"),
        value => {
            out.extend(value.type_name().bytes());
            out.push(b'=');
            printed(out, value, 'v', &Spec::default(), true);
        }
    }
    out.push(b')');
}

/// Upper bound of a value's printed size in bytes. JSON is at most [`json::GROWTH`] times as long.
pub(super) fn size(value: &Value<'_>) -> u64 {
    match value {
        Value::Text(text) => text.bytes().len() as u64 + 2,
        Value::List(List { items: Items::Bytes(bytes), .. }) => 4 * bytes.len() as u64 + 2,
        Value::List(list) => list.items.iter().fold(8, |sum, item| sum + 1 + size(&item)),
        Value::Map(map) => map.entries().iter().fold(8, |sum, (key, item)| sum + 4 + key.len() as u64 + size(item)),
        Value::Struct(Struct::NestedProperties(properties)) => {
            let property = |property| size(&Value::Struct(Struct::Property(property)));
            properties.unwrap_or_default().iter().fold(16, |sum, (key, p)| sum + 4 + key.len() as u64 + property(p))
        }
        Value::Struct(object) => object.fields().iter().fold(8, |sum, field| sum + 16 + size(&field.value)),
        // Large enough for a float in JSON, without an exponent.
        _ => 32,
    }
}
