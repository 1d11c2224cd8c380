//! Calls of Qwen3-Coder, Qwen 3.5, Nemotron, Step and Seed-OSS:
//! `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`.
//!
//! Values are text; the tool's schema determines their types. Models often omit `<tool_call>`.

use serde_json::{Map, Value};

use super::coerce::coerce;
use super::json;
use super::layout::{Body, End, Place, Quote, Tag};
use super::tool::{self, Tool};
use crate::message::ToolCall;

/// Tags of this syntax.
pub(super) const XML: &[Tag] = &[
    Tag::call("<tool_call>", &CALL),
    Tag::call("<seed:tool_call>", &SEED_CALL),
    Tag::call(FUNCTION, &BARE),
    Tag::drop("</tool_call>", Place::AfterTag),
    Tag::drop("</seed:tool_call>", Place::AfterTag),
];

/// Beginnings of calls that end reasoning without its closing tag. Reasoning may mention `<tool_call>` alone.
pub(super) const CALLS: &[&str] = &["<tool_call>\n<function=", "<tool_call><function="];

const FUNCTION: &str = "<function=";
const END_FUNCTION: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const END_PARAMETER: &str = "</parameter>";
const QUOTES: &[Quote] = &[(PARAMETER, END_PARAMETER)];

static CALL: Body = Body { overlap: 0, end: End::Tag("</tool_call>"), quotes: QUOTES, parse };
static SEED_CALL: Body = Body { overlap: 0, end: End::Tag("</seed:tool_call>"), quotes: QUOTES, parse };
static BARE: Body = Body { overlap: FUNCTION.len(), end: End::Tag(END_FUNCTION), quotes: QUOTES, parse: parse_bare };

fn parse(text: &str, tools: &[Tool]) -> Option<Vec<ToolCall>> {
    let mut calls = Vec::new();
    let mut rest = text.trim();
    if rest.starts_with('{') {
        return json::calls(rest, tools);
    }
    while !rest.is_empty() {
        let (call, after) = function(rest, tools)?;
        calls.push(call);
        rest = after.strip_prefix(END_FUNCTION)?.trim_start();
    }
    (!calls.is_empty()).then_some(calls)
}

/// Parses a call without its closing tag.
fn parse_bare(text: &str, tools: &[Tool]) -> Option<Vec<ToolCall>> {
    let (call, after) = function(text, tools)?;
    after.is_empty().then_some(vec![call])
}

/// Parses a function and its parameters. Returns the text after them.
fn function<'t>(text: &'t str, tools: &[Tool]) -> Option<(ToolCall, &'t str)> {
    let (name, mut rest) = text.strip_prefix(FUNCTION)?.split_once('>')?;
    let name = name.trim().trim_matches('"');
    let tool = tool::find(tools, name);
    let mut arguments = Map::new();
    loop {
        rest = rest.trim_start();
        let Some(after) = rest.strip_prefix(PARAMETER) else { break };
        let (key, after) = after.split_once('>')?;
        let (value, after) = after.split_once(END_PARAMETER)?;
        let key = key.trim().trim_matches('"');
        arguments.insert(key.to_owned(), coerce(value, tool.and_then(|tool| tool.parameter(key))));
        rest = after;
    }
    (!name.is_empty()).then(|| (json::named(name, Value::Object(arguments)), rest))
}
