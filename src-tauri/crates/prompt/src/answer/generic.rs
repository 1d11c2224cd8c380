//! Calls of models of which a template reveals only the tag before calls: after the tag, the name of a tool, then JSON.
//!
//! The JSON is the first object after the name. It is the arguments, or has them under `arguments` or `parameters`.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::json;
use super::layout::{Action, Body, JSON_BRACKETS, JSON_QUOTES, Place, Tag};
use super::tool::Tool;
use crate::message::ToolCall;

/// Maximum number of calls in one body; each may scan the rest of the body once for every tool.
const MAX_CALLS: usize = 128;

static BODY: Body = Body { overlap: 0, end: JSON_BRACKETS, quotes: JSON_QUOTES, parse };

/// Returns the layout of calls after `tag`. A closing tag is removed: `</a>` after `<a>`.
pub(super) fn tags(tag: &str) -> Vec<Tag> {
    let mut tags = vec![Tag { text: Cow::Owned(tag.to_owned()), place: Place::Anywhere, action: Action::Call(&BODY) }];
    if let Some(inner) = tag.strip_prefix('<').filter(|inner| inner.len() > 1 && inner.ends_with('>')) {
        let close = match inner.strip_prefix('|') {
            Some(inner) => format!("<|/{inner}"),
            None => format!("</{inner}"),
        };
        tags.push(Tag { text: Cow::Owned(close), place: Place::AfterTag, action: Action::Drop });
    }
    tags
}

fn parse(text: &str, tools: &[Tool]) -> Option<Vec<ToolCall>> {
    if let Some(calls) = json::calls(text, tools) {
        return Some(calls);
    }
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some((tool, after)) = earliest_name(rest, tools) {
        if calls.len() == MAX_CALLS {
            return None;
        }
        let object = after.find('{').and_then(|at| json::first_value(after.get(at..)?));
        let arguments = match object {
            Some((value, after)) => {
                rest = after;
                arguments_of(value, tool)
            }
            // A name within brackets is part of a truncated call.
            None if tool.has_no_parameters() && !text.contains(['{', '[']) && matches!(after.trim(), "" | "()") => {
                rest = "";
                Value::Object(Map::new())
            }
            None => return None,
        };
        calls.push(json::named(&tool.name, arguments));
    }
    (!calls.is_empty()).then_some(calls)
}

/// Finds the first tool name in `text`, and the longest one at its position. Returns the text after it.
fn earliest_name<'t, 'a>(text: &'a str, tools: &'t [Tool]) -> Option<(&'t Tool, &'a str)> {
    let named = tools.iter().filter(|tool| !tool.name.is_empty());
    let found = named.filter_map(|tool| Some((text.find(&tool.name)?, tool)));
    let (at, tool) = found.min_by_key(|(at, tool)| (*at, std::cmp::Reverse(tool.name.len())))?;
    Some((tool, text.get(at + tool.name.len()..)?))
}

/// Returns the arguments in an object, which may have them under a key that is not a parameter.
fn arguments_of(mut value: Value, tool: &Tool) -> Value {
    for key in ["arguments", "parameters"] {
        if tool.parameter(key).is_none()
            && let Some(inner) = value.get_mut(key).filter(|inner| inner.is_object())
        {
            return inner.take();
        }
    }
    value
}
