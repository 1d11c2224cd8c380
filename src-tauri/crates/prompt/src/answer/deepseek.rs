//! Calls of DeepSeek and of Kimi K2: a name and JSON with a token between them.
//!
//! DeepSeek V3 and R1 write a type before the name and fence the JSON; V3.1 does neither. Kimi writes the call's id,
//! which contains the name: `functions.NAME:0`.

use super::json;
use super::layout::{Body, End, Place, Quote, Tag};
use super::tool::Tool;
use crate::message::ToolCall;

/// Tags of DeepSeek.
pub(super) const DEEPSEEK: &[Tag] = &[
    Tag::drop("<｜tool▁calls▁begin｜>", Place::Anywhere),
    Tag::call("<｜tool▁call▁begin｜>", &DEEPSEEK_BODY),
    Tag::drop("<｜tool▁calls▁end｜>", Place::Anywhere),
];
/// Tags of Kimi K2.
pub(super) const KIMI: &[Tag] = &[
    Tag::drop("<|tool_calls_section_begin|>", Place::Anywhere),
    Tag::call("<|tool_call_begin|>", &KIMI_BODY),
    Tag::drop("<|tool_calls_section_end|>", Place::Anywhere),
];

const DEEPSEEK_SEPARATOR: &str = "<｜tool▁sep｜>";
const KIMI_SEPARATOR: &str = "<|tool_call_argument_begin|>";
const DEEPSEEK_QUOTES: &[Quote] = &[("\"", "\""), (DEEPSEEK_SEPARATOR, "")];
const KIMI_QUOTES: &[Quote] = &[("\"", "\""), (KIMI_SEPARATOR, "")];

static DEEPSEEK_BODY: Body =
    Body { overlap: 0, end: End::Tag("<｜tool▁call▁end｜>"), quotes: DEEPSEEK_QUOTES, parse: deepseek };
static KIMI_BODY: Body = Body { overlap: 0, end: End::Tag("<|tool_call_end|>"), quotes: KIMI_QUOTES, parse: kimi };

fn deepseek(text: &str, _tools: &[Tool]) -> Option<Vec<ToolCall>> {
    let (first, second) = text.split_once(DEEPSEEK_SEPARATOR)?;
    let second = second.trim();
    let (name, arguments) = match second.split_once("```") {
        _ if second.starts_with('{') => (first, second),
        Some((name, fenced)) => (name, fenced.strip_prefix("json").unwrap_or(fenced).trim_end().strip_suffix("```")?),
        None => second.split_once('\n').unwrap_or((second, "")),
    };
    let name = name.trim();
    (!name.is_empty()).then_some(vec![json::named(name, json::arguments_of(arguments)?)])
}

fn kimi(text: &str, _tools: &[Tool]) -> Option<Vec<ToolCall>> {
    let (id, arguments) = text.split_once(KIMI_SEPARATOR)?;
    let id = id.trim();
    let name = id.strip_prefix("functions.").unwrap_or(id);
    let name = match name.rsplit_once(':') {
        Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    };
    let call = json::named(name, json::arguments_of(arguments)?);
    (!name.is_empty()).then(|| vec![ToolCall { id: Some(id.to_owned()), ..call }])
}
