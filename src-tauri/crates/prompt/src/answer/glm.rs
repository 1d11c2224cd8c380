//! Calls of GLM and Laguna: `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>…</tool_call>`.
//!
//! Values are text; the tool's schema determines their types. Laguna also writes calls in JSON.

use serde_json::{Map, Value};

use super::coerce::coerce;
use super::json;
use super::layout::{Body, End, Quote, Tag};
use super::tool::{self, Tool};
use crate::message::ToolCall;

/// Tags of GLM.
pub(super) const GLM: &[Tag] = &[Tag::call("<tool_call>", &BODY)];

const KEY: (&str, &str) = ("<arg_key>", "</arg_key>");
const VALUE: (&str, &str) = ("<arg_value>", "</arg_value>");
const QUOTES: &[Quote] = &[KEY, VALUE];

static BODY: Body = Body { overlap: 0, end: End::Tag("</tool_call>"), quotes: QUOTES, parse };

fn parse(text: &str, tools: &[Tool]) -> Option<Vec<ToolCall>> {
    let text = text.trim();
    if text.starts_with('{') {
        return json::calls(text, tools);
    }
    let (name, mut rest) = text.split_at(text.find(KEY.0).unwrap_or(text.len()));
    let name = name.trim();
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || matches!(c, '<' | '{')) {
        return None;
    }
    let tool = tool::find(tools, name);
    let mut arguments = Map::new();
    while !rest.is_empty() {
        let (key, after) = rest.strip_prefix(KEY.0)?.split_once(KEY.1)?;
        let (value, after) = after.trim_start().strip_prefix(VALUE.0)?.split_once(VALUE.1)?;
        let key = key.trim();
        arguments.insert(key.to_owned(), coerce(value, tool.and_then(|tool| tool.parameter(key))));
        rest = after.trim_start();
    }
    Some(vec![json::named(name, Value::Object(arguments))])
}
