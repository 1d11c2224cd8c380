//! Separates reasoning from the answer while both stream in.
//!
//! A reasoning model writes `<think>`, its reasoning, `</think>`, its answer. Some prompts already end with the opening
//! tag. White space before the opening tag and after either tag is dropped. A text that begins with anything else is an
//! answer without reasoning, and tags in it are plain text. Some models omit the closing tag before a tool call, so the text
//! that begins a call ends the reasoning too.
//!
//! **Invariant:** the concatenated deltas do not depend on how the input was split.

use crate::message::ToolCall;
use crate::overlap::{partial_match_bytes, take_front};

/// Tags of reasoning in templates of a language that does not reveal them.
const TAGS: &[(&str, &str)] = &[
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
];
/// Tags of reasoning with channels. Templates write them in parts.
const CHANNEL_TAGS: (&str, &str) = ("<|channel|>analysis<|message|>", "<|end|>");

/// Returns the first pair of tags that the source of a template contains.
pub(crate) fn tags_in(source: &str) -> Option<(&'static str, &'static str)> {
    let has_channels = ["<|channel|>analysis", "<|message|>", CHANNEL_TAGS.1].iter().all(|text| source.contains(text));
    let pair = || TAGS.iter().find(|(open, close)| source.contains(open) && source.contains(close)).copied();
    if has_channels { Some(CHANNEL_TAGS) } else { pair() }
}

/// A piece of streamed output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Reasoning.
    Thinking(String),
    /// The answer.
    Text(String),
    /// A call of a tool.
    ToolCall(ToolCall),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Only white space so far.
    Start,
    /// The prompt ended with the opening tag; only white space so far. The model may repeat the tag.
    Inside,
    /// After the opening tag; only white space since.
    Opened,
    Thinking,
    /// After the closing tag; only white space since.
    Closed,
    Text,
}

/// Splits a streamed answer at its thinking tags.
#[derive(Debug, Clone)]
pub(crate) struct ThinkingSplitter {
    open: String,
    close: String,
    /// Texts that end the reasoning like the closing tag, but belong to the answer.
    calls: &'static [&'static str],
    state: State,
    /// Text that may become a tag, or white space that may be dropped.
    held: String,
    /// Length of the white space at the start of `held`, as far as it was examined.
    blank: usize,
}

impl ThinkingSplitter {
    /// Creates a splitter for one answer. `starts_inside`: the prompt ended with the opening tag.
    pub(crate) fn new(open: &str, close: &str, starts_inside: bool) -> ThinkingSplitter {
        let state = match (open.is_empty(), starts_inside) {
            (_, true) => State::Inside,
            (true, false) => State::Text,
            (false, false) => State::Start,
        };
        ThinkingSplitter {
            open: open.to_owned(),
            close: close.to_owned(),
            calls: &[],
            state,
            held: String::new(),
            blank: 0,
        }
    }

    /// Adds the texts that begin a call of a tool.
    pub(crate) fn with_calls(self, calls: &'static [&'static str]) -> ThinkingSplitter {
        ThinkingSplitter { calls, ..self }
    }

    /// Adds `text` and returns the deltas that are now certain.
    pub(crate) fn push(&mut self, text: &str) -> Vec<Delta> {
        self.held.push_str(text);
        let mut deltas = Vec::new();
        while self.step(&mut deltas) {}
        deltas
    }

    /// Returns the buffered text at the end of the answer.
    pub(crate) fn finish(mut self) -> Vec<Delta> {
        let rest = std::mem::take(&mut self.held);
        match self.state {
            _ if rest.is_empty() => Vec::new(),
            State::Start | State::Text => vec![Delta::Text(rest)],
            State::Thinking => vec![Delta::Thinking(rest)],
            // An incomplete tag is reasoning. White space alone is dropped.
            State::Inside | State::Opened => match rest.trim_start() {
                "" => Vec::new(),
                rest => vec![Delta::Thinking(rest.to_owned())],
            },
            // Only white space is buffered in this state.
            State::Closed => Vec::new(),
        }
    }

    /// Moves certain text from the buffer to `deltas`. Returns whether another step may find more.
    fn step(&mut self, deltas: &mut Vec<Delta>) -> bool {
        match self.state {
            State::Start => {
                let rest = self.held.get(self.blank..).unwrap_or_default().trim_start();
                self.blank = self.held.len() - rest.len();
                if let Some(after) = rest.strip_prefix(self.open.as_str()) {
                    self.held = after.to_owned();
                    self.state = State::Opened;
                } else if self.open.starts_with(rest) {
                    return false;
                } else {
                    self.state = State::Text;
                }
                true
            }
            State::Inside => {
                self.held = self.held.trim_start().to_owned();
                let rest = self.held.as_str();
                let repeated = rest.strip_prefix(self.open.as_str()).filter(|_| !self.open.is_empty());
                if let Some(after) = repeated {
                    self.held = after.to_owned();
                } else if !self.open.is_empty() && self.open.starts_with(rest) {
                    return false;
                }
                self.state = State::Opened;
                true
            }
            State::Opened => {
                self.held = self.held.trim_start().to_owned();
                self.state = if self.held.is_empty() { State::Opened } else { State::Thinking };
                self.state == State::Thinking
            }
            State::Thinking => {
                let close = self.held.find(self.close.as_str()).filter(|_| !self.close.is_empty());
                let call = self.calls.iter().filter_map(|call| self.held.find(call)).min();
                let end = close.into_iter().chain(call).min();
                let tags = self.calls.iter().copied().chain([self.close.as_str()]);
                let certain = end.unwrap_or_else(|| self.held.len() - partial_match_bytes(&self.held, tags));
                let thinking = take_front(&mut self.held, certain);
                if !thinking.is_empty() {
                    deltas.push(Delta::Thinking(thinking));
                }
                match end {
                    None => return false,
                    Some(at) if close == Some(at) => {
                        take_front(&mut self.held, self.close.len());
                        self.state = State::Closed;
                    }
                    Some(_) => self.state = State::Text,
                }
                true
            }
            State::Closed => {
                self.held = self.held.trim_start().to_owned();
                self.state = if self.held.is_empty() { State::Closed } else { State::Text };
                self.state == State::Text
            }
            State::Text => {
                let text = std::mem::take(&mut self.held);
                if !text.is_empty() {
                    deltas.push(Delta::Text(text));
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
