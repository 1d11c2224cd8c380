//! Calls as in Python: `[f(a='x', n=1), g()]`, or one call per line.
//!
//! LFM2 puts them between `<|tool_call_start|>` and `<|tool_call_end|>`, Olmo 3 between `<function_calls>` and
//! `</function_calls>`.

use serde_json::{Map, Value};

use super::json;
use super::layout::{ANY_BRACKETS, ANY_QUOTES, Body, End, Tag};
use super::literal::Reader;
use super::tool::{self, Tool};
use crate::message::ToolCall;

/// Tags of LFM2. A bare list is a call too if all its tools exist.
pub(super) const LFM2: &[Tag] = &[Tag::call("<|tool_call_start|>", &LFM2_BODY), Tag::first("[", &LIST)];
/// Tags of Olmo 3.
pub(super) const OLMO3: &[Tag] = &[Tag::call("<function_calls>", &OLMO3_BODY)];

static LFM2_BODY: Body = Body { overlap: 0, end: End::Tag("<|tool_call_end|>"), quotes: ANY_QUOTES, parse: any_calls };
static OLMO3_BODY: Body = Body { overlap: 0, end: End::Tag("</function_calls>"), quotes: ANY_QUOTES, parse: any_calls };
/// A bare list of calls.
pub(super) static LIST: Body = Body { overlap: 1, end: ANY_BRACKETS, quotes: ANY_QUOTES, parse: existing_calls };

/// Parses calls in Python or in JSON.
pub(super) fn any_calls(text: &str, tools: &[Tool]) -> Option<Vec<ToolCall>> {
    calls(text, tools).or_else(|| json::calls(text, tools))
}

/// Parses like [`any_calls`] and requires that all tools exist.
fn existing_calls(text: &str, tools: &[Tool]) -> Option<Vec<ToolCall>> {
    any_calls(text, tools).filter(|calls| calls.iter().all(|call| tool::find(tools, &call.name).is_some()))
}

/// Parses calls in Python.
pub(super) fn calls(text: &str, tools: &[Tool]) -> Option<Vec<ToolCall>> {
    let text = text.trim();
    let listed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let mut reader = Reader::python(listed.unwrap_or(text));
    let mut calls = Vec::new();
    loop {
        while reader.eat(",") || reader.eat(";") {}
        if reader.rest().is_empty() {
            return (!calls.is_empty()).then_some(calls);
        }
        calls.push(call(&mut reader, tools)?);
    }
}

/// Parses one call. Positional arguments get the names of the tool's parameters, in order.
fn call(reader: &mut Reader<'_, '_>, tools: &[Tool]) -> Option<ToolCall> {
    let name = reader.identifier()?;
    let properties = tool::find(tools, name).and_then(|tool| tool.parameters.get("properties")?.as_object());
    let mut positions = properties.into_iter().flat_map(Map::keys);
    let mut arguments = Map::new();
    if !reader.eat("(") {
        return None;
    }
    while !reader.eat(")") {
        let mut ahead = Reader::python(reader.rest());
        let key = match ahead.identifier().filter(|_| ahead.eat("=")) {
            Some(key) => {
                *reader = ahead;
                key
            }
            None => positions.next()?,
        };
        arguments.insert(key.to_owned(), reader.value(0)?);
        if !reader.eat(",") && !reader.rest().trim_start().starts_with(')') {
            return None;
        }
    }
    Some(json::named(name, Value::Object(arguments)))
}
