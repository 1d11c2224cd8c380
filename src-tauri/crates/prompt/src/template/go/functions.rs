//! Functions that a template may call: those of Go and those of Ollama.
//!
//! Functions that read or create texts charge the budget before they run, by the size of their arguments and an upper
//! bound of the result.
//!
//! Spec: <https://pkg.go.dev/text/template#hdr-Functions>.

use std::cmp::Ordering;

use gotmpl::{html_escape, js_escape, url_encode};

use super::super::Error;
use super::super::local_time::LocalTime;
use super::budget::Budget;
use super::format;
use super::json;
use super::printf::printf;
use super::values::{List, Struct, Text, Value};

/// Maximum output of escaping per input byte: `\u0026`, or `&#34;`.
const ESCAPE_GROWTH: u64 = 6;

/// Type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    /// Any value. No value becomes `nil`.
    Any,
    /// Any value, or none.
    Value,
    Text,
}

/// Parameters of a function, and the type of further arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signature {
    pub(super) fixed: &'static [Parameter],
    pub(super) further: Option<Parameter>,
}

/// Reasons why a call fails.
#[derive(Debug)]
pub(super) enum Failure {
    /// The arguments are not valid.
    Invalid(String),
    /// A limit was exceeded.
    Limit(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Limit(error)
    }
}

type Result<T> = std::result::Result<T, Failure>;

/// Context of function calls.
#[derive(Debug)]
pub(super) struct Functions<'b> {
    pub(super) budget: &'b Budget,
    pub(super) now: LocalTime,
}

/// Returns the parameters of a function, or `None` if there is no such function.
pub(super) fn signature(name: &str) -> Option<Signature> {
    use Parameter::{Any, Text, Value};
    let (fixed, further): (&[Parameter], _) = match name {
        "json" | "toTypeScriptType" => (&[Any], None),
        "currentDate" | "yesterdayDate" => (&[], Some(Text)),
        "print" | "println" | "html" | "js" | "urlquery" => (&[], Some(Any)),
        "printf" => (&[Text], Some(Any)),
        "len" | "not" => (&[Value], None),
        "and" | "or" | "index" | "slice" | "eq" | "call" => (&[Value], Some(Value)),
        "ne" | "lt" | "le" | "gt" | "ge" => (&[Value, Value], None),
        _ => return None,
    };
    Some(Signature { fixed, further })
}

impl Functions<'_> {
    /// Calls a function with arguments of the types of its parameters. `and` and `or` are not called here, because
    /// they do not evaluate all arguments.
    pub(super) fn call<'a>(&self, name: &str, arguments: &[Value<'a>]) -> Result<Value<'a>> {
        Ok(match (name, arguments) {
            ("print", _) => self.print(arguments, false)?.into(),
            ("println", _) => self.print(arguments, true)?.into(),
            ("printf", [Value::Text(format), operands @ ..]) => printf(format.bytes(), operands, self.budget)?.into(),
            ("html" | "js" | "urlquery", _) => self.escaped(name, arguments)?.into(),
            ("json", [value]) => {
                self.budget.text(format::size(value).saturating_mul(json::GROWTH))?;
                let mut text = Vec::new();
                if json::write(&mut text, value).is_none() {
                    text.clear();
                }
                text.into()
            }
            ("len", [value]) => Value::Int(i64::try_from(length(value)?).unwrap_or(i64::MAX)),
            ("not", [value]) => Value::Bool(!value.is_true()),
            ("index", [value, keys @ ..]) => index(value, keys)?,
            ("slice", [value, bounds @ ..]) => self.slice(value, bounds)?,
            ("eq", [first, others @ ..]) => Value::Bool(self.equals_any(first, others)?),
            ("ne", [a, b]) => Value::Bool(!self.equals_any(a, std::slice::from_ref(b))?),
            ("lt", [a, b]) => Value::Bool(self.order(a, b)? == Some(Ordering::Less)),
            ("le", [a, b]) => Value::Bool(matches!(self.order(a, b)?, Some(Ordering::Less | Ordering::Equal))),
            ("gt", [a, b]) => Value::Bool(!matches!(self.order(a, b)?, Some(Ordering::Less | Ordering::Equal))),
            ("ge", [a, b]) => Value::Bool(self.order(a, b)? != Some(Ordering::Less)),
            // Ollama ignores the format argument.
            ("currentDate", _) => self.now.strftime("%Y-%m-%d").into(),
            ("yesterdayDate", _) => self.now.yesterday().strftime("%Y-%m-%d").into(),
            ("toTypeScriptType", [Value::Struct(Struct::Property(property))]) => property.typescript().into(),
            ("toTypeScriptType", _) => "any".into(),
            _ => return failed(format!("{name} does not accept {}", type_names(arguments))),
        })
    }

    /// Concatenates all values. `println` adds spaces between all values, `print` only between values that are not
    /// texts.
    fn print(&self, arguments: &[Value<'_>], is_line: bool) -> Result<Vec<u8>> {
        self.budget.text(arguments.iter().map(|value| format::size(value) + 1).sum())?;
        let is_text = |value: &Value<'_>| matches!(value, Value::Text(_));
        let mut text = Vec::new();
        let mut before: Option<&Value<'_>> = None;
        for value in arguments {
            if before.is_some_and(|before| is_line || !(is_text(before) || is_text(value))) {
                text.push(b' ');
            }
            format::print(&mut text, value, true);
            before = Some(value);
        }
        if is_line {
            text.push(b'\n');
        }
        Ok(text)
    }

    fn escaped(&self, name: &str, arguments: &[Value<'_>]) -> Result<String> {
        let bytes: u64 = arguments.iter().map(|value| format::size(value) + 16).sum();
        self.budget.text(bytes.saturating_mul(ESCAPE_GROWTH))?;
        // An argument prints as in an action.
        let printed: Vec<Value<'_>> = arguments
            .iter()
            .map(|value| match value {
                Value::None | Value::Nil => "<no value>".into(),
                Value::Struct(Struct::Message(_)) => {
                    let mut text = Vec::new();
                    format::print(&mut text, value, false);
                    text.into()
                }
                value => value.clone(),
            })
            .collect();
        let text = self.print(&printed, false)?;
        let text = String::from_utf8_lossy(&text);
        Ok(match name {
            "html" => html_escape(&text),
            "js" => js_escape(&text),
            _ => url_encode(&text),
        })
    }

    fn equals_any(&self, first: &Value<'_>, others: &[Value<'_>]) -> Result<bool> {
        if others.is_empty() {
            return failed("eq needs two arguments");
        }
        for other in others {
            if self.equals(first, other)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn equals(&self, a: &Value<'_>, b: &Value<'_>) -> Result<bool> {
        let is_basic = |value: &Value<'_>| {
            matches!(value, Value::Bool(_) | Value::Int(_) | Value::Byte(_) | Value::Float(_) | Value::Text(_))
        };
        let is_none = |value: &Value<'_>| matches!(value, Value::None | Value::Nil);
        match (a, b) {
            (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
            (Value::Float(a), Value::Float(b)) => Ok(a == b),
            _ if is_basic(a) && is_basic(b) => Ok(self.order(a, b)? == Some(Ordering::Equal)),
            _ if is_basic(a) && is_none(b) || is_none(a) && is_basic(b) => Ok(false),
            _ if is_none(a) || is_none(b) => Ok(a.is_nil() && b.is_nil()),
            (Value::Struct(Struct::Message(a)), Value::Struct(Struct::Message(b))) => Ok(std::ptr::eq(*a, *b)),
            (Value::List(_), Value::List(_)) | (Value::Map(_), Value::Map(_)) if a.is_nil() || b.is_nil() => {
                Ok(a.is_nil() && b.is_nil())
            }
            _ => failed(format!("{} cannot be compared", type_names(&[a.clone(), b.clone()]))),
        }
    }

    /// Compares two values. Returns `None` if one is not a number.
    fn order(&self, a: &Value<'_>, b: &Value<'_>) -> Result<Option<Ordering>> {
        match (a, b) {
            (Value::Int(a), Value::Int(b)) => Ok(Some(a.cmp(b))),
            (Value::Byte(a), Value::Byte(b)) => Ok(Some(a.cmp(b))),
            (Value::Int(a), Value::Byte(b)) => Ok(Some(a.cmp(&i64::from(*b)))),
            (Value::Byte(a), Value::Int(b)) => Ok(Some(i64::from(*a).cmp(b))),
            (Value::Float(a), Value::Float(b)) => Ok(a.partial_cmp(b)),
            (Value::Text(a), Value::Text(b)) => {
                self.budget.read(a.bytes().len().min(b.bytes().len()) as u64)?;
                Ok(Some(a.bytes().cmp(b.bytes())))
            }
            _ => failed(format!("{} cannot be compared", type_names(&[a.clone(), b.clone()]))),
        }
    }

    fn slice<'a>(&self, value: &Value<'a>, bounds: &[Value<'a>]) -> Result<Value<'a>> {
        let length = match value {
            Value::Text(text) if bounds.len() < 3 => text.bytes().len(),
            Value::List(list) if bounds.len() <= 3 => list.items.len(),
            value => {
                return failed(format!("slice does not accept {} with {} indexes", value.type_name(), bounds.len()));
            }
        };
        let bounds: Vec<usize> = bounds.iter().map(|bound| position(bound, length)).collect::<Result<_>>()?;
        let (from, to) = (bounds.first().copied().unwrap_or(0), bounds.get(1).copied().unwrap_or(length));
        if bounds.get(2).is_some_and(|end| to > *end) {
            return failed("the indexes of slice decrease");
        }
        let sliced = match value {
            Value::Text(text) => {
                if let Text::Shared(_) = text {
                    self.budget.text(to.saturating_sub(from) as u64)?;
                }
                text.slice(from, to).map(Value::Text)
            }
            Value::List(list) => {
                list.items.slice(from, to).map(|items| Value::List(List { items, is_nil: list.is_nil }))
            }
            _ => None,
        };
        sliced.map_or_else(|| failed("the indexes of slice decrease"), Ok)
    }
}

/// Returns an index that is at most the length.
fn position(index: &Value<'_>, length: usize) -> Result<usize> {
    let number = match index {
        Value::Int(number) => usize::try_from(*number).ok(),
        Value::Byte(number) => Some(usize::from(*number)),
        other => return failed(format!("{} is not an index", other.type_name())),
    };
    match number.filter(|number| *number <= length) {
        Some(number) => Ok(number),
        None => failed("an index is out of range"),
    }
}

fn length(value: &Value<'_>) -> Result<usize> {
    match value {
        Value::Text(text) => Ok(text.bytes().len()),
        Value::List(list) => Ok(list.items.len()),
        Value::Map(map) => Ok(map.len()),
        other => failed(format!("{} has no length", other.type_name())),
    }
}

fn index<'a>(value: &Value<'a>, keys: &[Value<'a>]) -> Result<Value<'a>> {
    let mut value = value.clone();
    if matches!(value, Value::None | Value::Nil) {
        return failed("nil cannot be indexed");
    }
    for key in keys {
        let item = match (&value, key) {
            (Value::List(list), key) => list.items.get(position(key, list.items.len())?),
            (Value::Text(text), key) => {
                let at = position(key, text.bytes().len())?;
                text.bytes().get(at).map(|byte| Value::Byte(*byte))
            }
            (Value::Map(map), Value::Text(key)) => {
                let key = str::from_utf8(key.bytes()).ok();
                Some(key.and_then(|key| map.get(key)).unwrap_or_else(|| map.zero()))
            }
            (other, key) => {
                return failed(format!("{} cannot be indexed by {}", other.type_name(), key.type_name()));
            }
        };
        value = match item {
            Some(item) => item,
            None => return failed("an index is out of range"),
        };
    }
    Ok(value)
}

fn failed<T>(message: impl Into<String>) -> Result<T> {
    Err(Failure::Invalid(message.into()))
}

/// Names the types of values for errors.
fn type_names(values: &[Value<'_>]) -> String {
    let names: Vec<&str> = values.iter().take(4).map(Value::type_name).collect();
    let more = if values.len() > names.len() { ", ..." } else { "" };
    if names.is_empty() { "no arguments".to_owned() } else { names.join(", ") + more }
}
