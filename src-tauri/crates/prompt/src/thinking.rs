//! Reasoning parted from the answer, while both stream in.
//!
//! A model that reasons writes `<think>`, its reasoning, `</think>`, its answer; some prompts already end with the opening tag.
//! White space before the opening tag and after either tag belongs to neither. A text that begins with anything else is an
//! answer without reasoning, and tags in it are text.
//!
//! **Invariant:** the pieces do not depend on how the text was cut into parts, apart from where they are cut themselves.

use crate::overlap::{held_bytes, take_front};

/// A part of what the model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Reasoning.
    Thinking(String),
    /// The answer.
    Text(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before anything but white space.
    Start,
    /// The prompt held the opening tag; before anything but white space. A model that repeats the tag is forgiven.
    Inside,
    /// After the opening tag, before anything but white space.
    Opened,
    Thinking,
    /// After the closing tag, before anything but white space.
    Closed,
    Text,
}

/// Splits a streamed answer at its thinking tags.
#[derive(Debug, Clone)]
pub struct ThinkingSplitter {
    open: String,
    close: String,
    state: State,
    /// What may still become a tag, or is white space whose place is not known yet.
    held: String,
}

impl ThinkingSplitter {
    /// A splitter at the start of an answer; `starts_inside` when the prompt ended with the opening tag.
    pub fn new(open: &str, close: &str, starts_inside: bool) -> ThinkingSplitter {
        let state = match (open.is_empty(), starts_inside) {
            (_, true) => State::Inside,
            (true, false) => State::Text,
            (false, false) => State::Start,
        };
        ThinkingSplitter { open: open.to_owned(), close: close.to_owned(), state, held: String::new() }
    }

    /// The pieces that became certain with `text`.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        self.held.push_str(text);
        let mut pieces = Vec::new();
        while self.step(&mut pieces) {}
        pieces
    }

    /// What was held back when the answer ended.
    pub fn finish(mut self) -> Vec<Piece> {
        let rest = std::mem::take(&mut self.held);
        match self.state {
            _ if rest.is_empty() => Vec::new(),
            State::Start | State::Text => vec![Piece::Text(rest)],
            State::Thinking => vec![Piece::Thinking(rest)],
            // The beginning of a tag is a thought after all, white space alone is nothing.
            State::Inside | State::Opened => match rest.trim_start() {
                "" => Vec::new(),
                rest => vec![Piece::Thinking(rest.to_owned())],
            },
            // Only white space is ever held here.
            State::Closed => Vec::new(),
        }
    }

    /// Whether the answer is inside reasoning now.
    pub fn is_thinking(&self) -> bool {
        matches!(self.state, State::Inside | State::Opened | State::Thinking)
    }

    /// Takes what is certain off the held text; whether there may be more.
    fn step(&mut self, pieces: &mut Vec<Piece>) -> bool {
        match self.state {
            State::Start => {
                let said = self.held.trim_start();
                if let Some(after) = said.strip_prefix(self.open.as_str()) {
                    self.held = after.to_owned();
                    self.state = State::Opened;
                } else if self.open.starts_with(said) {
                    return false;
                } else {
                    self.state = State::Text;
                }
                true
            }
            State::Inside => {
                let said = self.held.trim_start();
                let repeated = said.strip_prefix(self.open.as_str()).filter(|_| !self.open.is_empty());
                if let Some(after) = repeated {
                    self.held = after.to_owned();
                } else if !self.open.is_empty() && self.open.starts_with(said) {
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
                if let Some(at) = self.held.find(self.close.as_str()).filter(|_| !self.close.is_empty()) {
                    let thought = take_front(&mut self.held, at);
                    if !thought.is_empty() {
                        pieces.push(Piece::Thinking(thought));
                    }
                    take_front(&mut self.held, self.close.len());
                    self.state = State::Closed;
                    return true;
                }
                let certain = self.held.len() - held_bytes(&self.held, [self.close.as_str()]);
                let thought = take_front(&mut self.held, certain);
                if !thought.is_empty() {
                    pieces.push(Piece::Thinking(thought));
                }
                false
            }
            State::Closed => {
                self.held = self.held.trim_start().to_owned();
                self.state = if self.held.is_empty() { State::Closed } else { State::Text };
                self.state == State::Text
            }
            State::Text => {
                let text = std::mem::take(&mut self.held);
                if !text.is_empty() {
                    pieces.push(Piece::Text(text));
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
