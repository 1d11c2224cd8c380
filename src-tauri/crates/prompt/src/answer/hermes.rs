//! Calls in JSON between special tokens: Hermes and Qwen 2.5 and 3 (`<tool_call>`), Granite and Phi-4-mini
//! (`<|tool_call|>`), Cohere's Command (`<|START_ACTION|>`).

use super::json;
use super::layout::{Body, End, JSON_BRACKETS, JSON_QUOTES, Place, Tag};

/// Tags of Hermes and Qwen. Apriel has a list of calls in `<tool_calls>`.
pub(super) const HERMES: &[Tag] = &[Tag::call("<tool_call>", &CALL), Tag::call("<tool_calls>", &CALLS)];

/// Tags of Granite, Phi-4-mini, GigaChat and FireFunction. Most have no closing tag.
pub(super) const PIPES: &[Tag] = &[
    Tag::call("<|tool_call|>", &VALUE),
    Tag::call("<|function_call|>", &VALUE),
    Tag::call("<tool_call>", &CALL),
    Tag::call("functools[", &LIST),
    Tag::drop("<|/tool_call|>", Place::AfterTag),
];

/// Tags of Cohere's Command. The answer's text has tags too. The ids of its calls are numbers that restart with every
/// answer, so they are ignored.
pub(super) const COHERE: &[Tag] = &[
    Tag::call("<|START_ACTION|>", &ACTION),
    Tag::drop("<|START_TEXT|>", Place::Anywhere),
    Tag::drop("<|END_TEXT|>", Place::Anywhere),
    Tag::drop("<|START_RESPONSE|>", Place::Anywhere),
    Tag::drop("<|END_RESPONSE|>", Place::Anywhere),
];

/// A body up to `</tool_call>`.
pub(super) static CALL: Body =
    Body { overlap: 0, end: End::Tag("</tool_call>"), quotes: JSON_QUOTES, parse: json::calls };
static CALLS: Body = Body { overlap: 0, end: End::Tag("</tool_calls>"), quotes: JSON_QUOTES, parse: json::calls };
static ACTION: Body = Body { overlap: 0, end: End::Tag("<|END_ACTION|>"), quotes: JSON_QUOTES, parse: json::calls };
static VALUE: Body = Body { overlap: 0, end: JSON_BRACKETS, quotes: JSON_QUOTES, parse: json::calls };
static LIST: Body = Body { overlap: 1, end: JSON_BRACKETS, quotes: JSON_QUOTES, parse: json::calls };
