//! Functions that a template may call: those of Go and those of Ollama.
//!
//! Functions that read or create texts are implemented here. Each charges the budget before it runs, by the size of its
//! arguments and an upper bound of its result.
//!
//! Spec: <https://pkg.go.dev/text/template#hdr-Functions>.

use std::cmp::Ordering;
use std::sync::Arc;

use gotmpl::{FuncMap, TemplateError, Value, html_escape, js_escape, url_encode};

use super::super::local_time::LocalTime;
use super::budget::Budget;
use super::text::{JSON_GROWTH, JsonTexts};

/// Name of the function that charges a step. No template can call it, because names have no spaces.
pub(super) const STEP: &str = " step";
/// Name of the function that prints the value of an action. No template can call it.
pub(super) const PRINT: &str = " print";

/// Functions of the engine with bounded cost.
const ENGINE_FUNCTIONS: [&str; 6] = ["and", "call", "index", "len", "not", "or"];
/// Functions that are defined here.
const OWN_FUNCTIONS: [&str; 17] = [
    "currentDate",
    "eq",
    "ge",
    "gt",
    "html",
    "js",
    "json",
    "le",
    "lt",
    "ne",
    "print",
    "printf",
    "println",
    "slice",
    "toTypeScriptType",
    "urlquery",
    "yesterdayDate",
];

/// Maximum width or precision of a `printf` verb in the engine.
const MAX_WIDTH_BYTES: u64 = 1 << 16;
/// Maximum output of `printf` per input byte: `\U0001F999` for a character, `0xff ` for a byte.
const VERB_GROWTH: u64 = 10;
/// Maximum output of escaping per input byte: `\u0026`, or `&#34;`.
const ESCAPE_GROWTH: u64 = 6;

/// Returns whether a function of this name exists.
pub(super) fn exists(name: &str) -> bool {
    ENGINE_FUNCTIONS.contains(&name) || OWN_FUNCTIONS.contains(&name)
}

type Result = std::result::Result<Value, TemplateError>;

/// Context of function calls.
struct Functions {
    budget: Arc<Budget>,
    json_texts: JsonTexts,
    now: LocalTime,
}

/// Returns the functions of one rendering. The values in `json_texts` must outlive them.
pub(super) fn function_map(budget: Arc<Budget>, json_texts: JsonTexts, now: LocalTime) -> FuncMap {
    let functions = Arc::new(Functions { budget, json_texts, now });
    let entry = |name: &'static str| {
        let functions = Arc::clone(&functions);
        let call = move |arguments: &[Value]| functions.call(name, arguments);
        (name.to_owned(), Arc::new(call) as gotmpl::ValueFunc)
    };
    OWN_FUNCTIONS.into_iter().chain([STEP, PRINT]).map(entry).collect()
}

impl Functions {
    fn call(&self, name: &'static str, arguments: &[Value]) -> Result {
        match (name, arguments) {
            (STEP, [Value::Int(line), Value::Int(cost)]) => {
                self.budget.step(usize::try_from(*line).unwrap_or(0), u64::try_from(*cost).unwrap_or(u64::MAX))?;
                Ok(Value::Nil)
            }
            // Go prints `<nil>` everywhere else.
            (PRINT | "html" | "js" | "urlquery", [Value::Nil]) => self.escaped(name, "<no value>"),
            (PRINT, [text @ Value::String(_)]) => Ok(text.clone()),
            (PRINT, [_]) => self.print(arguments, false),
            ("print", _) => self.print(arguments, false),
            ("println", _) => self.print(arguments, true),
            ("printf", [Value::String(format), rest @ ..]) => self.printf(format, rest),
            ("html" | "js" | "urlquery", [value]) => {
                self.budget.text(self.json_texts.bytes(value).saturating_mul(ESCAPE_GROWTH))?;
                let mut text = String::new();
                self.json_texts.write(&mut text, value);
                self.escaped(name, &text)
            }
            ("json", [value]) => {
                self.budget.text(self.json_texts.bytes(value).saturating_mul(JSON_GROWTH))?;
                let mut text = String::new();
                self.json_texts.write_json(&mut text, value);
                Ok(Value::from(text))
            }
            ("eq", [first, others @ ..]) if !others.is_empty() => {
                for other in others {
                    if self.equal(first, other)? {
                        return Ok(Value::Bool(true));
                    }
                }
                Ok(Value::Bool(false))
            }
            ("ne", [a, b]) => Ok(Value::Bool(!self.equal(a, b)?)),
            ("lt", [a, b]) => Ok(Value::Bool(self.order(a, b)?.is_lt())),
            ("le", [a, b]) => Ok(Value::Bool(self.order(a, b)?.is_le())),
            ("gt", [a, b]) => Ok(Value::Bool(self.order(a, b)?.is_gt())),
            ("ge", [a, b]) => Ok(Value::Bool(self.order(a, b)?.is_ge())),
            ("slice", [value, bounds @ ..]) if bounds.len() <= 2 => self.slice(value, bounds),
            // Ollama ignores the format argument.
            ("currentDate", _) => Ok(Value::from(self.now.strftime("%Y-%m-%d"))),
            ("yesterdayDate", _) => Ok(Value::from(self.now.yesterday().strftime("%Y-%m-%d"))),
            ("toTypeScriptType", [property]) => Ok(Value::from(typescript(property))),
            _ => Err(failed(format!("{name} does not accept {}", type_names(arguments)))),
        }
    }

    fn escaped(&self, name: &str, text: &str) -> Result {
        Ok(Value::from(match name {
            "html" => html_escape(text),
            "js" => js_escape(text),
            "urlquery" => url_encode(text),
            _ => text.to_owned(),
        }))
    }

    /// Concatenates all values. `println` adds spaces between all values, `print` only between values that are not
    /// texts.
    fn print(&self, arguments: &[Value], line: bool) -> Result {
        self.budget.text(arguments.iter().map(|value| self.json_texts.bytes(value) + 1).sum())?;
        let is_text = |value: &Value| matches!(value, Value::String(_));
        let mut text = String::new();
        let mut before: Option<&Value> = None;
        for value in arguments {
            if before.is_some_and(|before| line || !(is_text(before) || is_text(value))) {
                text.push(' ');
            }
            self.json_texts.write(&mut text, value);
            before = Some(value);
        }
        text.push_str(if line { "\n" } else { "" });
        Ok(Value::from(text))
    }

    /// Calls the engine's `printf` through a template with a single call.
    fn printf(&self, format: &str, arguments: &[Value]) -> Result {
        self.budget.text(formatted_bytes(format, arguments, &self.json_texts))?;
        let mut source = "{{printf".to_owned();
        let mut values = vec![Value::from(format)];
        for value in arguments {
            values.push(self.json_texts.substitute(value));
        }
        for index in 0..values.len() {
            source += &format!(" (index . {index})");
        }
        let call = gotmpl::Template::new("").parse(&(source + "}}"))?;
        Ok(Value::from(call.execute_to_string(&Value::from(values))?))
    }

    fn equal(&self, a: &Value, b: &Value) -> std::result::Result<bool, TemplateError> {
        match (a, b) {
            (Value::Nil, other) | (other, Value::Nil) => Ok(matches!(other, Value::Nil)),
            (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
            _ => self.order(a, b).map(Ordering::is_eq),
        }
    }

    fn order(&self, a: &Value, b: &Value) -> std::result::Result<Ordering, TemplateError> {
        match (a, b) {
            (Value::Int(a), Value::Int(b)) => Ok(a.cmp(b)),
            (Value::Float(a), Value::Float(b)) => Ok(a.total_cmp(b)),
            (Value::String(a), Value::String(b)) => {
                self.budget.read(a.len().min(b.len()) as u64)?;
                Ok(a.cmp(b))
            }
            _ => Err(failed(format!("{} cannot be compared", type_names(&[a.clone(), b.clone()])))),
        }
    }

    fn slice(&self, value: &Value, bounds: &[Value]) -> Result {
        let bound = |index: usize| match bounds.get(index) {
            None => Ok(None),
            Some(Value::Int(bound)) => Ok(Some(*bound)),
            Some(other) => Err(failed(format!("slice does not accept {} as a bound", other.type_name()))),
        };
        let (first, end) = (bound(0)?, bound(1)?);
        // The result. Templates slice the conversation once for each message, to look at the messages behind it.
        let count = |length: usize| {
            let index = |bound: i64| usize::try_from(bound).unwrap_or(0).min(length);
            end.map_or(length, index).saturating_sub(first.map_or(0, index))
        };
        let bytes = match value {
            Value::List(items) => count(items.len()) * size_of::<Value>(),
            Value::String(text) => count(text.len()),
            _ => 0,
        };
        self.budget.read(bytes as u64)?;
        value.slice(first, end)
    }
}

fn failed(message: String) -> TemplateError {
    TemplateError::Exec(message)
}

/// Names the types of values for errors.
fn type_names(values: &[Value]) -> String {
    let names: Vec<&str> = values.iter().take(4).map(Value::type_name).collect();
    let more = if values.len() > names.len() { ", ..." } else { "" };
    if names.is_empty() { "no arguments".to_owned() } else { names.join(", ") + more }
}

/// Upper bound of the output of `printf`. Every verb can select the longest argument.
fn formatted_bytes(format: &str, arguments: &[Value], json_texts: &JsonTexts) -> u64 {
    let longest = arguments.iter().map(|value| json_texts.bytes(value)).max().unwrap_or(0);
    // Unused arguments are json_texts at the end.
    let extra: u64 = arguments.iter().map(|value| 32 + json_texts.bytes(value)).sum();
    let verbs = format.split('%').skip(1).fold(0_u64, |sum, after| {
        let at = after.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(after.len());
        let (options, verb) = after.split_at_checked(at).unwrap_or((after, ""));
        let growth = if options.is_empty() && verb.starts_with(['s', 'v', 'd']) { 1 } else { VERB_GROWTH };
        let counts = options.contains(|letter: char| letter.is_ascii_digit() || letter == '*');
        let width = if counts { 2 * MAX_WIDTH_BYTES } else { 512 };
        sum.saturating_add(longest.saturating_mul(growth)).saturating_add(width)
    });
    verbs.saturating_add(format.len() as u64).saturating_add(extra)
}

/// Converts the type of a tool's property to TypeScript; `any` if it is not a property.
fn typescript(property: &Value) -> String {
    let list = |name: &str| match property.field(name) {
        Some(Value::List(items)) => &**items,
        _ => &[],
    };
    let names: Vec<String> = match (list("AnyOf"), list("Type")) {
        ([], []) => return "any".to_owned(),
        ([], types) => {
            types.iter().map(|name| typescript_of_schema(name.as_str().unwrap_or_default()).to_owned()).collect()
        }
        (any_of, _) => any_of.iter().map(typescript).collect(),
    };
    names.join(" | ")
}

fn typescript_of_schema(name: &str) -> &'static str {
    match name {
        "string" => "string",
        "number" | "integer" => "number",
        "boolean" => "boolean",
        "array" => "any[]",
        "object" => "Record<string, any>",
        "null" => "null",
        _ => "any",
    }
}
