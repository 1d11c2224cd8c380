//! Answers of gpt-oss: a sequence of messages, each with a channel.
//!
//! ```text
//! <|channel|>analysis<|message|>reasoning<|end|>
//! <|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>
//! <|start|>assistant<|channel|>final<|message|>text<|return|>
//! ```
//!
//! The prompt ends with `<|start|>assistant`. A message with a recipient is a call; other messages are reasoning on the
//! channel `analysis` and text on all others. A message without a header is text. A call becomes text, with its header, if its
//! arguments are not a JSON object.

use super::calls::MAX_BODY_BYTES;
use super::json;
use super::tool::Tool;
use crate::message::ToolCall;
use crate::overlap::{partial_match_bytes, take_front};
use crate::thinking::Delta;

/// Special tokens of this format.
pub(super) const TOKENS: &[&str] = &[START, CHANNEL, MESSAGE, CONSTRAIN, "<|end|>", "<|call|>", "<|return|>"];

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
const CONSTRAIN: &str = "<|constrain|>";
const RECIPIENT: &str = "to=";
/// Tokens that end a message.
const ENDS: [&str; 4] = ["<|end|>", "<|call|>", "<|return|>", START];
/// Tokens that end a header.
const HEADER_ENDS: [&str; 5] = [MESSAGE, "<|end|>", "<|call|>", "<|return|>", START];
/// Maximum size of a header. Longer ones are text.
const MAX_HEADER_BYTES: usize = 1 << 10;
/// Maximum size of the input that is processed at once: every message moves the rest of it.
const MAX_STEP_BYTES: usize = 1 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Before a header.
    Between,
    /// In a header. The text before it is needed if it turns out not to be a header.
    Header(&'static str),
    Thinking,
    Text,
    Call {
        name: String,
        /// The header with its tokens.
        header: String,
    },
}

/// Splits an answer of gpt-oss.
#[derive(Debug)]
pub(super) struct HarmonyParser {
    /// Names of tools as the template writes them, and as the client does.
    names: Vec<(String, String)>,
    state: State,
    /// Text that is not processed.
    held: String,
    /// Number of bytes of `held` that contain no end of a message.
    searched: usize,
    /// Whether only white space was processed.
    is_start: bool,
}

impl HarmonyParser {
    /// Creates a parser for one answer. `is_thinking`: the prompt ends in a message on the channel `analysis`.
    pub(super) fn new(tools: &[Tool], is_thinking: bool) -> HarmonyParser {
        let state = if is_thinking { State::Thinking } else { State::Between };
        HarmonyParser { names: written_names(tools), state, held: String::new(), searched: 0, is_start: true }
    }

    pub(super) fn push(&mut self, text: &str) -> Vec<Delta> {
        let mut deltas = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (step, after) = rest.split_at(rest.floor_char_boundary(MAX_STEP_BYTES));
            rest = after;
            self.held.push_str(step);
            while self.step(false, &mut deltas) {}
        }
        deltas
    }

    pub(super) fn finish(mut self) -> Vec<Delta> {
        let mut deltas = Vec::new();
        while self.step(true, &mut deltas) {}
        deltas
    }

    /// Processes held text. Returns whether another step may process more. `last`: no text follows.
    fn step(&mut self, last: bool, deltas: &mut Vec<Delta>) -> bool {
        match std::mem::replace(&mut self.state, State::Between) {
            State::Between => self.between(last),
            State::Header(before) => self.header(before, last, deltas),
            state @ (State::Thinking | State::Text) => self.message(state, last, deltas),
            State::Call { name, header } => self.call(name, header, last, deltas),
        }
    }

    /// Drops white space and reads the token that begins a message.
    fn between(&mut self, last: bool) -> bool {
        let space = self.held.len() - self.held.trim_start().len();
        take_front(&mut self.held, space);
        let text = self.held.as_str();
        let tags = ENDS.into_iter().chain([CHANNEL, MESSAGE]).chain(self.is_start.then_some(RECIPIENT));
        let (next, consumed) = match tags.clone().find(|tag| text.starts_with(tag)) {
            Some(START) => (State::Header(START), START.len()),
            Some(CHANNEL | RECIPIENT) => (State::Header(""), 0),
            Some(MESSAGE) => (State::Text, MESSAGE.len()),
            Some(end) => (State::Between, end.len()),
            None if text.is_empty() || (!last && tags.into_iter().any(|tag| tag.starts_with(text))) => return false,
            None => (State::Text, 0),
        };
        take_front(&mut self.held, consumed);
        (self.state, self.is_start) = (next, false);
        true
    }

    fn header(&mut self, before: &'static str, last: bool, deltas: &mut Vec<Delta>) -> bool {
        let end = HEADER_ENDS.iter().filter_map(|tag| Some((self.held.find(tag)?, *tag))).min();
        let end = end.filter(|(at, _)| *at <= MAX_HEADER_BYTES);
        let is_short = self.held.len() <= MAX_HEADER_BYTES + MESSAGE.len();
        match end {
            Some((at, MESSAGE)) => {
                let header = take_front(&mut self.held, at);
                take_front(&mut self.held, MESSAGE.len());
                self.state = self.state_after(before, &header);
                true
            }
            None if is_short && !last => {
                self.state = State::Header(before);
                false
            }
            // This is not a header.
            _ => {
                if !before.is_empty() {
                    deltas.push(Delta::Text(before.to_owned()));
                }
                self.state = State::Text;
                !(last && self.held.is_empty())
            }
        }
    }

    /// Returns the state in the message after a header.
    fn state_after(&self, before: &str, header: &str) -> State {
        let channel = header.split_once(CHANNEL).map_or("", |(_, channel)| channel);
        let is_end = |c: char| c.is_whitespace() || c == '<';
        let recipient = header.split_once(RECIPIENT).map(|(_, recipient)| recipient);
        let recipient = recipient.map(|recipient| recipient.split(is_end).next().unwrap_or_default());
        match recipient.filter(|recipient| !matches!(*recipient, "" | "user" | "assistant" | "all")) {
            Some(recipient) => {
                let name = recipient.strip_prefix("functions.").unwrap_or(recipient);
                let original = self.names.iter().find(|(written, _)| written == name);
                let name = original.map_or(name, |(_, original)| original).to_owned();
                State::Call { name, header: format!("{before}{header}{MESSAGE}") }
            }
            None if channel.trim_start().starts_with("analysis") => State::Thinking,
            None => State::Text,
        }
    }

    /// Finds the end of a message. Searches each byte once.
    fn find_end(&mut self) -> Option<(usize, &'static str)> {
        let from = self.held.floor_char_boundary(self.searched);
        let text = self.held.get(from..).unwrap_or_default();
        let found = ENDS.iter().filter_map(|tag| Some((from + text.find(tag)?, *tag))).min();
        let longest = START.len();
        self.searched = if found.is_some() { 0 } else { self.held.len().saturating_sub(longest) };
        found
    }

    /// Emits the text of a message.
    fn message(&mut self, state: State, last: bool, deltas: &mut Vec<Delta>) -> bool {
        let end = self.find_end();
        let certain = match end {
            Some((at, _)) => at,
            None if last => self.held.len(),
            None => self.held.len() - partial_match_bytes(&self.held, ENDS),
        };
        let text = take_front(&mut self.held, certain);
        self.searched = 0;
        if !text.is_empty() {
            deltas.push(if state == State::Thinking { Delta::Thinking(text) } else { Delta::Text(text) });
        }
        self.state = if end.is_some() { State::Between } else { state };
        end.is_some()
    }

    /// Collects the arguments of a call.
    fn call(&mut self, name: String, header: String, last: bool, deltas: &mut Vec<Delta>) -> bool {
        let end = self.find_end().map(|(at, _)| at).filter(|at| *at <= MAX_BODY_BYTES);
        let is_short = self.held.len() <= MAX_BODY_BYTES + START.len();
        let body_end = end.or_else(|| (last && is_short).then_some(self.held.len()));
        if body_end.is_none() && is_short {
            self.state = State::Call { name, header };
            return false;
        }
        self.searched = 0;
        let body = body_end.and_then(|end| self.held.get(..end));
        match (body.and_then(json::arguments_of), body_end) {
            (Some(arguments), Some(end)) => {
                take_front(&mut self.held, end);
                deltas.push(Delta::ToolCall(ToolCall { id: None, name, arguments }));
            }
            _ => {
                deltas.push(Delta::Text(header));
                self.state = State::Text;
            }
        }
        true
    }
}

/// Returns the names of tools as identifiers, as the template writes them, with the original names.
fn written_names(tools: &[Tool]) -> Vec<(String, String)> {
    let mut names: Vec<(String, String)> = Vec::new();
    for tool in tools {
        let identifier = identifier(&tool.name);
        let taken = |name: &str| names.iter().any(|(written, _)| written == name);
        let numbered = (2..).map(|number: usize| format!("{identifier}_{number}"));
        let written = std::iter::once(identifier.clone()).chain(numbered).find(|name| !taken(name));
        names.extend(written.map(|written| (written, tool.name.clone())));
    }
    names
}

/// Converts a name to an identifier of TypeScript. Names of built-in tools remain.
fn identifier(name: &str) -> String {
    if name == "python" || name.starts_with("browser.") {
        return name.to_owned();
    }
    let replaced = name.chars().map(|c| if matches!(c, ' ' | '-' | '.') { '_' } else { c });
    let kept: String = replaced.filter(|c| c.is_alphanumeric() || matches!(c, '_' | '$')).collect();
    if kept.starts_with(|c: char| c.is_numeric()) { format!("_{kept}") } else { kept }
}
