//! Calls of Mistral: `[TOOL_CALLS][{"name": …, "arguments": {…}}]`, and `[TOOL_CALLS]NAME[ARGS]{…}` of newer models,
//! with `[CALL_ID]` between name and arguments in some.

use super::json;
use super::layout::{Body, JSON_BRACKETS, Quote, Tag};
use super::tool::Tool;
use crate::message::ToolCall;

/// Tags of Mistral.
pub(super) const MISTRAL: &[Tag] = &[Tag::call("[TOOL_CALLS]", &BODY)];

const ARGS: &str = "[ARGS]";
const CALL_ID: &str = "[CALL_ID]";
/// The brackets of the tokens do not count.
const QUOTES: &[Quote] = &[("\"", "\""), (ARGS, ""), (CALL_ID, "")];

static BODY: Body = Body { overlap: 0, end: JSON_BRACKETS, quotes: QUOTES, parse };

fn parse(text: &str, tools: &[Tool]) -> Option<Vec<ToolCall>> {
    let text = text.trim();
    let brackets = text.find(['{', '['])?;
    if brackets == 0 && !text.starts_with(ARGS) && !text.starts_with(CALL_ID) {
        return json::calls(text, tools);
    }
    // Some models omit `[ARGS]`.
    let (head, arguments) = text.split_once(ARGS).unwrap_or_else(|| text.split_at(brackets));
    let (name, id) = match head.split_once(CALL_ID) {
        Some((name, id)) => (name.trim(), Some(id.trim().to_owned())),
        None => (head.trim(), None),
    };
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    is_name.then_some(vec![ToolCall { id, ..json::named(name, json::arguments_of(arguments)?) }])
}
