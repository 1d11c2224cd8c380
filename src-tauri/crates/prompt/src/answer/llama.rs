//! Calls of Llama 3 and of models without tags: `{"name": …, "parameters": {…}}` as the first output, also after
//! `<|python_tag|>`. The latter also precedes `NAME.call(key="value")`, a call of a built-in tool.

use super::hermes;
use super::json;
use super::layout::{ANY_BRACKETS, ANY_QUOTES, Body, End, JSON_BRACKETS, JSON_QUOTES, Place, Tag};
use super::python;
use super::tool::Tool;
use crate::message::ToolCall;

/// Tags of Llama 3 and of models without a detected syntax. Calls without a tag must name existing tools: an answer may be JSON.
pub(super) const LLAMA: &[Tag] = &[
    Tag::call("<|python_tag|>", &TAGGED),
    Tag::call("<function=", &FUNCTION),
    Tag::call("<tool_call>", &hermes::CALL),
    Tag::first("{", &OBJECT),
    Tag::first("[", &python::LIST),
    Tag::drop(";", Place::AfterTag),
];

static TAGGED: Body = Body { overlap: 0, end: ANY_BRACKETS, quotes: ANY_QUOTES, parse: tagged };
static OBJECT: Body = Body { overlap: 1, end: JSON_BRACKETS, quotes: JSON_QUOTES, parse: json::existing_calls };
static FUNCTION: Body = Body { overlap: 0, end: End::Tag("</function>"), quotes: JSON_QUOTES, parse: function };

/// Parses the text after `<|python_tag|>`. Program code is not a call.
fn tagged(text: &str, tools: &[Tool]) -> Option<Vec<ToolCall>> {
    if let Some(calls) = json::calls(text, tools) {
        return Some(calls);
    }
    let mut calls = python::calls(text, tools)?;
    for call in &mut calls {
        call.name = call.name.strip_suffix(".call")?.to_owned();
    }
    Some(calls)
}

/// Parses `NAME>{…}`.
fn function(text: &str, _tools: &[Tool]) -> Option<Vec<ToolCall>> {
    let (name, arguments) = text.split_once('>')?;
    let name = name.trim().trim_matches('"');
    (!name.is_empty()).then_some(vec![json::named(name, json::arguments_of(arguments)?)])
}
