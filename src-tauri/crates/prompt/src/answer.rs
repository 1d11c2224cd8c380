//! Parsers of streamed answers: reasoning, text and tool calls.
//!
//! [`AnswerFormat`] describes what the answers of a model look like. [`AnswerParser`] splits one answer as it streams in.
//! Reasoning is split off first ([`ThinkingSplitter`]); the rest is searched for tool calls ([`calls`]). Only the format
//! of gpt-oss, where every message has a channel, has a parser of its own ([`harmony`]).
//!
//! White space around a tool call is dropped. Text that only looks like a call becomes text, unchanged; see [`calls`].
//!
//! **Invariant:** the concatenated deltas do not depend on how the input was split. Each byte is scanned a bounded number
//! of times, and at most one call is buffered.
//!
//! | module | content |
//! |---|---|
//! | `syntax` | the syntaxes, and how a template reveals one |
//! | `layout`, `calls` | description of a syntax by its tags, and the parser that it drives |
//! | `hermes`, `llama`, `mistral`, `xml`, `glm`, `gemma`, `deepseek`, `python`, `generic` | syntaxes |
//! | `harmony` | the format of gpt-oss |
//! | `call_grammar` | the texts of calls in a syntax, to require calls |
//! | `json`, `literal`, `coerce` | values |
//! | `tool` | the tools of a request |

mod call_grammar;
mod calls;
mod coerce;
mod deepseek;
mod gemma;
mod generic;
mod glm;
mod harmony;
mod hermes;
mod json;
mod layout;
mod literal;
mod llama;
mod mistral;
mod python;
mod syntax;
mod tool;
mod xml;

use crate::thinking::{Delta, ThinkingSplitter};
pub use call_grammar::CallLimits;
use calls::CallParser;
use harmony::HarmonyParser;
pub use syntax::Syntax;
pub use tool::Tool;

/// The tags of most reasoning models.
const THINK: (&str, &str) = ("<think>", "</think>");
/// The tags of Gemma 4.
const GEMMA4: (&str, &str) = ("<|channel>thought", "<channel|>");

/// What the answers of a model look like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerFormat {
    /// Tags before and after reasoning.
    pub thinking: Option<(String, String)>,
    /// How tool calls are written.
    pub tool_calls: Option<Syntax>,
}

/// Where reasoning may be in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingStart {
    /// Nowhere: tags of reasoning are text. With channels, as of gpt-oss and Gemma 4, reasoning is still split off.
    Off,
    /// The answer may begin with the opening tag.
    AtTag,
    /// The prompt ended with the opening tag.
    Inside,
}

impl AnswerFormat {
    /// Creates a format from thinking tags and a syntax.
    fn new(thinking: Option<(&str, &str)>, tool_calls: Option<Syntax>) -> AnswerFormat {
        let thinking = thinking.map(|(open, close)| (open.to_owned(), close.to_owned()));
        AnswerFormat { thinking, tool_calls }
    }

    /// Detects the format by the source of a template. `call_tag`: the text before calls in the template, if its
    /// language reveals it. `has_tools`: the template renders tools.
    pub(crate) fn of_template(
        source: &str,
        thinking: Option<(&str, &str)>,
        call_tag: Option<&str>,
        has_tools: bool,
    ) -> AnswerFormat {
        let syntax = Syntax::in_source(source).or_else(|| call_tag.map(Syntax::after));
        // Most models without a special syntax write bare JSON.
        AnswerFormat::new(thinking, syntax.or_else(|| has_tools.then_some(Syntax::Llama)))
    }

    /// Returns the format of a parser that a model's configuration names, or of the family `gptoss`. `None`: the name is
    /// unknown. The name `passthrough` means plain text.
    pub fn by_parser_name(name: &str) -> Option<AnswerFormat> {
        let (thinking, syntax) = match name {
            "passthrough" => (None, None),
            "qwen3" | "qwen3-vl-instruct" => (None, Some(Syntax::Hermes)),
            "qwen3-thinking" | "qwen3-vl-thinking" => (Some(THINK), Some(Syntax::Hermes)),
            "qwen3-coder" => (None, Some(Syntax::Xml)),
            "qwen3.5" | "qwen3.8" | "ornith" | "nemotron-3-nano" | "nemotron-3.5-nano" => {
                (Some(THINK), Some(Syntax::Xml))
            }
            "gemma4" | "gemma4-small" | "gemma4-large" => (Some(GEMMA4), Some(Syntax::Gemma4)),
            "gemma4-no-thinking" => (None, Some(Syntax::Gemma4)),
            "functiongemma" => (None, Some(Syntax::FunctionGemma)),
            "deepseek3" | "deepseek3.1" | "cogito" => (Some(THINK), Some(Syntax::DeepSeek)),
            "ministral" => (Some(("[THINK]", "[/THINK]")), Some(Syntax::Mistral)),
            "glm-4.7" | "laguna" | "poolside-v1" => (Some(THINK), Some(Syntax::Glm)),
            "glm-ocr" => (None, Some(Syntax::Glm)),
            "lfm2" => (None, Some(Syntax::Lfm2)),
            "lfm2-thinking" => (Some(THINK), Some(Syntax::Lfm2)),
            "olmo3" | "olmo3.1" => (None, Some(Syntax::Olmo3)),
            "olmo3-think" | "olmo3-32b-think" => (Some(THINK), None),
            "cohere" => (Some(("<|START_THINKING|>", "<|END_THINKING|>")), Some(Syntax::Cohere)),
            "harmony" | "gpt-oss" | "gptoss" => {
                (Some(("<|channel|>analysis<|message|>", "<|end|>")), Some(Syntax::Harmony))
            }
            _ => return None,
        };
        Some(AnswerFormat::new(thinking, syntax))
    }

    /// Returns the tags of reasoning that the models of a family (`general.architecture`) write, if all write the same.
    pub fn thinking_tags_of_family(family: &str) -> Option<(&'static str, &'static str)> {
        match family {
            "gemma4" => Some(GEMMA4),
            "seed_oss" => Some(("<seed:think>", "</seed:think>")),
            _ => None,
        }
    }

    /// Returns whether answers have tags around plain text too, or around reasoning that the request disabled, so that they need
    /// the parser even without tools.
    pub fn frames_text(&self) -> bool {
        self.has_thought_channel() || self.tool_calls.as_ref().is_some_and(Syntax::frames_text)
    }

    /// Whether reasoning is in Gemma 4's channel. Its models may open the channel even if the request disables reasoning.
    fn has_thought_channel(&self) -> bool {
        self.thinking.as_ref().is_some_and(|(open, _)| open == GEMMA4.0)
    }

    /// Returns the texts that the decoder must not remove from an answer, if they are special tokens. Texts may repeat.
    pub fn preserved_tokens(&self) -> impl Iterator<Item = &str> {
        let thinking = self.thinking.iter().flat_map(|(open, close)| [open.as_str(), close.as_str()]);
        thinking.map(first_token).chain(self.tool_calls.iter().flat_map(Syntax::tokens))
    }
}

/// Returns a thinking tag without the word after its token, as in `<|channel>thought`.
fn first_token(tag: &str) -> &str {
    tag.find(['>', ']']).and_then(|end| tag.get(..=end)).unwrap_or(tag)
}

/// Splits one answer into reasoning, text and tool calls.
#[derive(Debug)]
pub struct AnswerParser {
    thinking: Option<ThinkingSplitter>,
    /// Whether reasoning that the request disables is dropped.
    drops_thinking: bool,
    rest: RestParser,
}

/// Parser of the answer after its reasoning.
#[derive(Debug)]
enum RestParser {
    Text,
    Calls(CallParser),
    Harmony(HarmonyParser),
}

impl AnswerParser {
    /// Creates a parser for one answer. Without tools, tool calls are text.
    pub fn new(format: &AnswerFormat, tools: &[Tool], start: ThinkingStart) -> AnswerParser {
        let syntax = format.tool_calls.as_ref().filter(|syntax| !tools.is_empty() || syntax.frames_text());
        let rest = match syntax {
            None => RestParser::Text,
            Some(Syntax::Harmony) => RestParser::Harmony(HarmonyParser::new(tools, start == ThinkingStart::Inside)),
            Some(syntax) => RestParser::Calls(CallParser::new(syntax.tags(), tools)),
        };
        let is_split = start != ThinkingStart::Off || format.has_thought_channel();
        let has_splitter = is_split && !matches!(rest, RestParser::Harmony(_));
        let tags = format.thinking.as_ref().filter(|_| has_splitter);
        let calls = if syntax == Some(&Syntax::Xml) { xml::CALLS } else { &[] };
        let splitter = |(open, close): &(String, String)| {
            ThinkingSplitter::new(open, close, start == ThinkingStart::Inside).with_calls(calls)
        };
        AnswerParser { thinking: tags.map(splitter), drops_thinking: start == ThinkingStart::Off, rest }
    }

    /// Ends the reasoning at its closing tag only, as a constraint of the answer does.
    #[must_use]
    pub fn ending_at_tag(mut self) -> AnswerParser {
        self.thinking = self.thinking.map(|splitter| splitter.with_calls(&[]));
        self
    }

    /// Adds `text` and returns the deltas that are now certain.
    pub fn push(&mut self, text: &str) -> Vec<Delta> {
        let deltas = match &mut self.thinking {
            Some(splitter) => splitter.push(text),
            None => vec![Delta::Text(text.to_owned())],
        };
        self.parse(deltas)
    }

    /// Parses what follows the reasoning.
    fn parse(&mut self, mut deltas: Vec<Delta>) -> Vec<Delta> {
        if self.thinking.is_some() && self.drops_thinking {
            deltas.retain(|delta| !matches!(delta, Delta::Thinking(_)));
        }
        deltas.into_iter().flat_map(|delta| self.rest.push(delta)).collect()
    }

    /// Returns the deltas of the buffered text at the end of the answer.
    pub fn finish(mut self) -> Vec<Delta> {
        let buffered = self.thinking.clone().map(ThinkingSplitter::finish).unwrap_or_default();
        let mut deltas = self.parse(buffered);
        deltas.extend(match self.rest {
            RestParser::Text => Vec::new(),
            RestParser::Calls(parser) => parser.finish(),
            RestParser::Harmony(parser) => parser.finish(),
        });
        deltas
    }
}

impl RestParser {
    /// Parses a delta of text. Other deltas remain.
    fn push(&mut self, delta: Delta) -> Vec<Delta> {
        match (self, delta) {
            (_, Delta::Text(text)) if text.is_empty() => Vec::new(),
            (Self::Calls(parser), Delta::Text(text)) => parser.push(&text),
            (Self::Harmony(parser), Delta::Text(text)) => parser.push(&text),
            (_, delta) => vec![delta],
        }
    }
}
