//! Finds tool calls in streamed text.
//!
//! The text is scanned once, from left to right. Before a tag is certain, it is held back together with the white space
//! before it. The text of a call is collected up to its end and then parsed. These become text, unchanged:
//!
//! - a call that cannot be parsed, because it is malformed or was truncated;
//! - a call with a text above [`MAX_BODY_BYTES`];
//! - the start of a tag at the end of the answer.
//!
//! A call at the end of the answer that lacks only its closing tag is a call.
//!
//! **Invariant:** every decision depends only on the text from its position on. A scan that needs more text stops and
//! later continues at the same position. So the result does not depend on how the text was split.

use std::borrow::Cow;

use super::layout::{Action, Body, End, Match, Place, Tag, tag_at};
use super::tool::Tool;
use crate::overlap::partial_match_bytes;
use crate::thinking::Delta;

/// Maximum size of the text of one call.
pub(super) const MAX_BODY_BYTES: usize = 1 << 20;

/// The last item before the current position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Previous {
    Nothing,
    Text,
    Tag,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Text,
    Call(Call),
}

/// A call without a recognised end.
#[derive(Debug, Clone, Copy)]
struct Call {
    /// Index of the opening tag.
    tag: usize,
    body: &'static Body,
    /// Position of the body's first byte.
    start: usize,
    /// Number of open brackets.
    depth: usize,
    /// End of the current quote.
    quote: Option<&'static str>,
}

/// What follows in the text of a call.
#[derive(Debug, Clone, Copy)]
enum Item {
    Close,
    Reopen,
    /// A quote with its start and end.
    Quote(&'static str, &'static str),
}

/// Splits streamed text into text and tool calls.
#[derive(Debug)]
pub(super) struct CallParser {
    tags: Cow<'static, [Tag]>,
    tools: Vec<Tool>,
    held: String,
    /// Start of the text that is not yet emitted. In `held`, `start` <= `blank` <= `at`.
    start: usize,
    /// End of the white space at `start`.
    blank: usize,
    /// Position of the next decision.
    at: usize,
    previous: Previous,
    state: State,
}

impl CallParser {
    pub(super) fn new(tags: Cow<'static, [Tag]>, tools: &[Tool]) -> CallParser {
        CallParser {
            tags,
            tools: tools.to_vec(),
            held: String::new(),
            start: 0,
            blank: 0,
            at: 0,
            previous: Previous::Nothing,
            state: State::Text,
        }
    }

    pub(super) fn push(&mut self, text: &str) -> Vec<Delta> {
        self.held.push_str(text);
        let deltas = self.scan(false);
        if self.start > 0 {
            self.held.drain(..self.start);
            self.blank -= self.start;
            self.at -= self.start;
            if let State::Call(call) = &mut self.state {
                call.start -= self.start;
            }
            self.start = 0;
        }
        deltas
    }

    pub(super) fn finish(mut self) -> Vec<Delta> {
        self.scan(true)
    }

    /// Scans as far as the text is certain. `last`: no text follows.
    fn scan(&mut self, last: bool) -> Vec<Delta> {
        let mut deltas = Vec::new();
        loop {
            let changed = match self.state {
                State::Text => self.scan_text(last, &mut deltas),
                State::Call(call) => self.scan_call(call, last, &mut deltas),
            };
            if !changed {
                return deltas;
            }
        }
    }

    fn slice(&self, from: usize, to: usize) -> &str {
        self.held.get(from..to).unwrap_or_default()
    }

    fn rest(&self) -> &str {
        self.held.get(self.at..).unwrap_or_default()
    }

    /// Scans text up to a tag. Returns whether a tag was found.
    fn scan_text(&mut self, last: bool, deltas: &mut Vec<Delta>) -> bool {
        if self.previous == Previous::Tag && self.start == self.at {
            let space = self.rest().len() - self.rest().trim_start().len();
            self.consume(self.at + space);
        }
        let blank_rest = self.held.get(self.blank..).unwrap_or_default();
        let first_text = self.blank + (blank_rest.len() - blank_rest.trim_start().len());
        loop {
            let rest = self.rest();
            let starts_tag = |c: &char| self.tags.iter().any(|tag| tag.text.starts_with(*c));
            let Some((offset, first)) = rest.char_indices().find(|(_, c)| starts_tag(c)) else {
                self.at = self.held.len();
                break;
            };
            let at = self.at + offset;
            let is_first = at == first_text && self.previous != Previous::Text;
            let allowed = |tag: &Tag| match tag.place {
                Place::Anywhere => true,
                Place::First => is_first,
                Place::AfterTag => is_first && self.previous == Previous::Tag,
            };
            let tags = self.tags.iter().enumerate().filter(|(_, tag)| allowed(tag));
            match tag_at(self.slice(at, self.held.len()), tags.map(|(index, tag)| (&*tag.text, index))) {
                Match::Full(index) => {
                    self.at = at;
                    self.emit_text(false, deltas);
                    self.open(index);
                    return true;
                }
                Match::Partial if !last => {
                    self.at = at;
                    break;
                }
                Match::Partial | Match::Missing => self.at = at + first.len_utf8(),
            }
        }
        self.emit_text(last, deltas);
        false
    }

    /// Emits the text before the current position. White space at its end is emitted only if `all`.
    fn emit_text(&mut self, all: bool, deltas: &mut Vec<Delta>) {
        let text = self.slice(self.blank, self.at).trim_end();
        let end = match text.len() {
            _ if all => self.at,
            0 => self.start,
            bytes => self.blank + bytes,
        };
        if end > self.start {
            deltas.push(Delta::Text(self.slice(self.start, end).to_owned()));
            self.previous = Previous::Text;
            self.start = end;
        }
        self.blank = self.at;
    }

    /// Marks all text before `to` as processed.
    fn consume(&mut self, to: usize) {
        (self.start, self.blank, self.at) = (to, to, to);
    }

    /// Enters the tag at the current position.
    fn open(&mut self, index: usize) {
        let Some(tag) = self.tags.get(index) else { return };
        let after = self.at + tag.text.len();
        match tag.action {
            Action::Drop => {
                self.consume(after);
                self.previous = Previous::Tag;
            }
            Action::Call(body) => {
                self.at = after - body.overlap;
                self.state = State::Call(Call { tag: index, body, start: self.at, depth: 0, quote: None });
            }
        }
    }

    /// Scans a call up to its end. Returns whether the end was found.
    fn scan_call(&mut self, mut call: Call, last: bool, deltas: &mut Vec<Delta>) -> bool {
        while let Some(c) = self.rest().chars().next() {
            if self.at - call.start > MAX_BODY_BYTES {
                self.give_back(self.at, deltas);
                return true;
            }
            if let Some(close) = call.quote {
                let escapes = c == '\\' && close.len() == 1;
                match tag_at(self.rest(), [(close, ())]) {
                    Match::Full(()) => {
                        self.at += close.len();
                        call.quote = None;
                    }
                    Match::Partial if !last => break,
                    _ if escapes => match self.rest().chars().nth(1) {
                        Some(escaped) => self.at += c.len_utf8() + escaped.len_utf8(),
                        None if last => self.at += c.len_utf8(),
                        None => break,
                    },
                    Match::Partial | Match::Missing => self.at += c.len_utf8(),
                }
                continue;
            }
            match tag_at(self.rest(), self.items(&call)) {
                Match::Full(Item::Close) => {
                    let close = if let End::Tag(close) = call.body.end { close.len() } else { 0 };
                    self.end_call(&call, self.at, self.at + close, deltas);
                    return true;
                }
                Match::Full(Item::Reopen) => {
                    self.end_call(&call, self.at, self.at, deltas);
                    return true;
                }
                Match::Full(Item::Quote(open, close)) => {
                    self.at += open.len();
                    call.quote = (!close.is_empty()).then_some(close);
                }
                Match::Partial if !last => break,
                Match::Partial | Match::Missing => {
                    self.at += c.len_utf8();
                    if call.closes_with(c) {
                        self.end_call(&call, self.at, self.at, deltas);
                        return true;
                    }
                }
            }
        }
        if last {
            let body = self.slice(call.start, self.held.len());
            let partial = match call.body.end {
                End::Tag(close) => partial_match_bytes(body, [close]),
                End::Bracket(_) => 0,
            };
            self.end_call(&call, self.held.len() - partial, self.held.len(), deltas);
            return true;
        }
        self.state = State::Call(call);
        false
    }

    /// Returns the texts that matter at the current position of a call, outside quotes.
    fn items(&self, call: &Call) -> impl Iterator<Item = (&str, Item)> {
        let close = match call.body.end {
            End::Tag(close) => Some((close, Item::Close)),
            End::Bracket(_) => None,
        };
        let tag = self.tags.get(call.tag).filter(|_| close.is_some() && self.at > call.start);
        let reopen = tag.map(|tag| (&*tag.text, Item::Reopen));
        let quotes = call.body.quotes.iter().map(|&(open, end)| (open, Item::Quote(open, end)));
        close.into_iter().chain(reopen).chain(quotes)
    }

    /// Parses the body that ends at `end`, and consumes the text up to `after`.
    fn end_call(&mut self, call: &Call, end: usize, after: usize, deltas: &mut Vec<Delta>) {
        match (call.body.parse)(self.slice(call.start, end), &self.tools) {
            Some(calls) => {
                deltas.extend(calls.into_iter().map(Delta::ToolCall));
                self.consume(after);
                self.previous = Previous::Tag;
                self.state = State::Text;
            }
            None => self.give_back(after, deltas),
        }
    }

    /// Emits the whole call up to `end` as text, with the white space before it.
    fn give_back(&mut self, end: usize, deltas: &mut Vec<Delta>) {
        (self.blank, self.at) = (self.start, end);
        self.emit_text(false, deltas);
        self.state = State::Text;
    }
}

impl Call {
    /// Counts a bracket. Returns whether it closes the first one.
    fn closes_with(&mut self, c: char) -> bool {
        let End::Bracket(openings) = self.body.end else { return false };
        let opening = match c {
            '}' => '{',
            ']' => '[',
            ')' => '(',
            _ => {
                self.depth += usize::from(openings.contains(&c));
                return false;
            }
        };
        let counts = openings.contains(&opening) && self.depth > 0;
        self.depth -= usize::from(counts);
        counts && self.depth == 0
    }
}
