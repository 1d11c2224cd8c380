//! Calls of Gemma 4 and of FunctionGemma: `call:NAME{key:value,…}` between tags. Strings are between two equal tokens.

use super::json;
use super::layout::{Body, End, Place, Quote, Tag};
use super::literal;
use super::tool::Tool;
use crate::message::ToolCall;

/// Tags of Gemma 4. Its models sometimes repeat the closing tag, or begin the tool's result themselves.
pub(super) const GEMMA4: &[Tag] = &[
    Tag::call("<|tool_call>", &GEMMA4_BODY),
    Tag::drop("<tool_call|>", Place::AfterTag),
    Tag::drop("<|tool_response>", Place::AfterTag),
];
/// Tags of FunctionGemma.
pub(super) const FUNCTION_GEMMA: &[Tag] =
    &[Tag::call("<start_function_call>", &FUNCTION_BODY), Tag::drop("<start_function_response>", Place::AfterTag)];

const GEMMA4_QUOTE: &str = "<|\"|>";
const FUNCTION_QUOTE: &str = "<escape>";
const GEMMA4_QUOTES: &[Quote] = &[(GEMMA4_QUOTE, GEMMA4_QUOTE)];
const FUNCTION_QUOTES: &[Quote] = &[(FUNCTION_QUOTE, FUNCTION_QUOTE)];

static GEMMA4_BODY: Body = Body {
    overlap: 0,
    end: End::Tag("<tool_call|>"),
    quotes: GEMMA4_QUOTES,
    parse: |text, _: &[Tool]| parse(text, GEMMA4_QUOTE),
};
static FUNCTION_BODY: Body = Body {
    overlap: 0,
    end: End::Tag("<end_function_call>"),
    quotes: FUNCTION_QUOTES,
    parse: |text, _: &[Tool]| parse(text, FUNCTION_QUOTE),
};

fn parse(text: &str, quote: &str) -> Option<Vec<ToolCall>> {
    let text = text.trim().strip_prefix("call:")?;
    let (name, arguments) = text.split_at(text.find('{')?);
    let name = name.trim();
    let (arguments, rest) = literal::first_value(arguments, Some(quote))?;
    (!name.is_empty() && rest.trim().is_empty()).then_some(vec![json::named(name, arguments)])
}
