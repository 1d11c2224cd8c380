//! Python's `str`, `repr` and `json.dumps`, where the engine differs.
//!
//! `None`, `True` and `False` are capitalised, floats always have a point, and lists and dictionaries print as in
//! Python source. JSON has a space after `,` and `:` and keeps every character that JSON allows.

use std::borrow::Cow;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use super::budget::{MAX_NESTING, MAX_TEXT_BYTES, exceeded};

/// Python's `str`. Borrows if the value is a text.
pub(super) fn text(value: &Value) -> Result<Cow<'_, str>, Error> {
    if let Some(text) = value.as_str() {
        return Ok(Cow::Borrowed(text));
    }
    let mut text = String::new();
    write_str(&mut text, value)?;
    Ok(Cow::Owned(text))
}

/// The filter `string`.
pub(super) fn string(value: &Value) -> Result<Value, Error> {
    Ok(match text(value)? {
        Cow::Borrowed(_) => value.clone(),
        Cow::Owned(text) => Value::from(text),
    })
}

/// The filter `length`. Undefined has length 0, as in Jinja2.
pub(super) fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    let refuse = || Error::new(ErrorKind::InvalidOperation, format!("a {} has no length", value.kind()));
    value.len().ok_or_else(refuse)
}

/// The test `iterable`. `None` is not iterable, undefined is, as in Jinja2.
pub(super) fn is_iterable(value: &Value) -> bool {
    value.is_undefined() || value.as_str().is_some() || (!value.is_none() && value.try_iter().is_ok())
}

/// Appends Python's `str` to `into`.
pub(super) fn write_str(into: &mut String, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => into.push_str(text),
        None => write_repr(into, value, 0)?,
    }
    Ok(())
}

/// Appends Python's `repr` to `into`.
fn write_repr(into: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_NESTING {
        return Err(Error::new(ErrorKind::InvalidOperation, "a value is nested too deeply to print"));
    }
    if into.len() > MAX_TEXT_BYTES {
        return Err(exceeded("memory"));
    }
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::None => into.push_str("None"),
        ValueKind::Bool => into.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => into.push_str(&number(value)),
        ValueKind::String => quote(into, value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => {
            let is_tuple = value.is_tuple();
            into.push(if is_tuple { '(' } else { '[' });
            for (index, item) in value.try_iter()?.enumerate() {
                into.push_str(if index > 0 { ", " } else { "" });
                write_repr(into, &item, depth + 1)?;
            }
            into.push_str(match (is_tuple, value.len()) {
                (true, Some(1)) => ",)",
                (true, _) => ")",
                (false, _) => "]",
            });
        }
        ValueKind::Map => {
            into.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                into.push_str(if index > 0 { ", " } else { "" });
                write_repr(into, &key, depth + 1)?;
                into.push_str(": ");
                write_repr(into, &value.get_item(&key)?, depth + 1)?;
            }
            into.push('}');
        }
        _ => into.push_str(&value.to_string()),
    }
    Ok(())
}

/// Appends a string literal of Python: in single quotes, unless the text contains those and no double quotes.
fn quote(into: &mut String, text: &str) {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    into.push(mark);
    for letter in text.chars() {
        match letter {
            '\\' => into.push_str("\\\\"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\t' => into.push_str("\\t"),
            letter if letter == mark => into.extend(['\\', letter]),
            letter if u32::from(letter) < 0x20 || letter == '\u{7f}' => {
                into.push_str(&format!("\\x{:02x}", u32::from(letter)));
            }
            letter => into.push(letter),
        }
    }
    into.push(mark);
}

/// Formats a number as Python's `repr`: floats with a point, or with an exponent from 1e16 on and below 1e-4.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(x) = f64::try_from(value.clone()) else { return value.to_string() };
    if x.is_nan() {
        return "nan".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let size = x.abs();
    if x != 0.0 && !(1e-4..1e16).contains(&size) {
        let scientific = format!("{x:e}");
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    let plain = x.to_string();
    if plain.contains('.') { plain } else { plain + ".0" }
}

/// Options of `json.dumps`.
struct Json {
    ensure_ascii: bool,
    sort_keys: bool,
    indent: Option<usize>,
    item_separator: String,
    key_separator: String,
}

/// The filter `tojson`: Python's `json.dumps(value, ensure_ascii=False)` with its keyword arguments.
pub(super) fn to_json(value: &Value, positional: Option<bool>, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<Value> = options.get("indent")?;
    let indent = indent.filter(|indent| !indent.is_none()).map(usize::try_from).transpose()?;
    let separators: Option<Vec<String>> = options
        .get::<Option<Value>>("separators")?
        .filter(|given| !given.is_none())
        .map(|given| given.try_iter().map(|parts| parts.map(|part| part.to_string()).collect()))
        .transpose()?;
    let (item_separator, key_separator) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "separators must be a pair")),
        None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
    };
    let json = Json {
        ensure_ascii: options.get::<Option<bool>>("ensure_ascii")?.or(positional).unwrap_or(false),
        sort_keys: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent,
        item_separator,
        key_separator,
    };
    options.assert_all_used()?;
    let mut text = String::new();
    json.write(&mut text, value, 0)?;
    Ok(Value::from(text))
}

impl Json {
    fn write(&self, into: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_NESTING {
            return Err(Error::new(ErrorKind::BadSerialization, "a value is nested too deeply for JSON"));
        }
        if into.len() > MAX_TEXT_BYTES {
            return Err(exceeded("memory"));
        }
        match value.kind() {
            ValueKind::None => into.push_str("null"),
            ValueKind::Bool => into.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => into.push_str(match number(value).as_str() {
                "nan" => "NaN",
                "inf" => "Infinity",
                "-inf" => "-Infinity",
                plain => plain,
            }),
            ValueKind::String => self.write_string(into, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.collect::<Vec<_>>();
                self.write_items(into, ('[', ']'), &items, depth, |into, item| self.write(into, item, depth + 1))?;
            }
            ValueKind::Map => {
                let mut keys = value.try_iter()?.collect::<Vec<_>>();
                if self.sort_keys {
                    keys.sort();
                }
                self.write_items(into, ('{', '}'), &keys, depth, |into, key| {
                    let name = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                    self.write_string(into, &name);
                    into.push_str(&self.key_separator);
                    self.write(into, &value.get_item(key)?, depth + 1)
                })?;
            }
            kind => {
                let reason = format!("a value of type {kind} cannot be written as JSON");
                return Err(Error::new(ErrorKind::BadSerialization, reason));
            }
        }
        Ok(())
    }

    /// Writes items between brackets, one per line if indented.
    fn write_items(
        &self,
        into: &mut String,
        (open, close): (char, char),
        items: &[Value],
        depth: usize,
        mut write: impl FnMut(&mut String, &Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let new_line = |into: &mut String, depth: usize| {
            if let Some(indent) = self.indent {
                into.push('\n');
                into.extend(std::iter::repeat_n(' ', indent.min(64) * depth));
            }
        };
        into.push(open);
        for (index, item) in items.iter().enumerate() {
            into.push_str(if index > 0 { &self.item_separator } else { "" });
            new_line(into, depth + 1);
            write(into, item)?;
        }
        if !items.is_empty() {
            new_line(into, depth);
        }
        into.push(close);
        Ok(())
    }

    fn write_string(&self, into: &mut String, text: &str) {
        into.push('"');
        for letter in text.chars() {
            match letter {
                '"' => into.push_str("\\\""),
                '\\' => into.push_str("\\\\"),
                '\n' => into.push_str("\\n"),
                '\r' => into.push_str("\\r"),
                '\t' => into.push_str("\\t"),
                '\u{8}' => into.push_str("\\b"),
                '\u{c}' => into.push_str("\\f"),
                letter if u32::from(letter) < 0x20 || self.ensure_ascii && letter > '~' => {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        into.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                letter => into.push(letter),
            }
        }
        into.push('"');
    }
}
