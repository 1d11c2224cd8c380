//! Description of a tool-call syntax: the tags that begin a call, and how the text of a call ends.

use std::borrow::Cow;

use super::tool::Tool;
use crate::message::ToolCall;

/// Parses the text of a call. Returns `None` if the text is not a call.
pub(super) type Parse = fn(&str, &[Tool]) -> Option<Vec<ToolCall>>;

/// Strings of JSON.
pub(super) const JSON_QUOTES: &[Quote] = &[("\"", "\"")];
/// Strings of JSON and of Python.
pub(super) const ANY_QUOTES: &[Quote] = &[("\"", "\""), ("'", "'")];

/// Texts before and after a region in which closing tags and brackets do not count. In a region that ends at one
/// character, a backslash escapes the next character. An empty end makes the first text an atom.
pub(super) type Quote = (&'static str, &'static str);

/// A text in an answer that is not part of the answer's text.
#[derive(Debug, Clone)]
pub(super) struct Tag {
    pub(super) text: Cow<'static, str>,
    pub(super) place: Place,
    pub(super) action: Action,
}

/// Where a tag counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Anywhere,
    /// Where no text precedes, or none since the previous tag.
    First,
    /// Directly after another tag or call.
    AfterTag,
}

/// Effect of a tag.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    /// The tag is removed, and white space around it.
    Drop,
    /// The tag begins a call.
    Call(&'static Body),
}

/// The text of a call.
#[derive(Debug)]
pub(super) struct Body {
    /// Number of bytes at the end of the tag that belong to the body.
    pub(super) overlap: usize,
    pub(super) end: End,
    pub(super) quotes: &'static [Quote],
    pub(super) parse: Parse,
}

/// The end of a body.
#[derive(Debug)]
pub(super) enum End {
    /// A closing tag, or another occurrence of the opening tag.
    Tag(&'static str),
    /// The bracket that closes the first one of these brackets.
    Bracket(&'static [char]),
}

/// Bracket types of JSON values.
pub(super) const JSON_BRACKETS: End = End::Bracket(&['{', '[']);
/// Bracket types of JSON values and of Python's calls.
pub(super) const ANY_BRACKETS: End = End::Bracket(&['{', '[', '(']);

impl Tag {
    /// Creates a tag that begins a call anywhere.
    pub(super) const fn call(text: &'static str, body: &'static Body) -> Tag {
        Tag { text: Cow::Borrowed(text), place: Place::Anywhere, action: Action::Call(body) }
    }

    /// Creates a tag that begins a call only as the first output.
    pub(super) const fn first(text: &'static str, body: &'static Body) -> Tag {
        Tag { text: Cow::Borrowed(text), place: Place::First, action: Action::Call(body) }
    }

    /// Creates a tag that is removed.
    pub(super) const fn drop(text: &'static str, place: Place) -> Tag {
        Tag { text: Cow::Borrowed(text), place, action: Action::Drop }
    }

    /// Returns the static texts of the tag and of its body, for the decoder.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &str> {
        let body = match self.action {
            Action::Call(body) => Some(body),
            Action::Drop => None,
        };
        let end = body.and_then(|body| match body.end {
            End::Tag(close) => Some(close),
            End::Bracket(_) => None,
        });
        let quotes = body.map_or(&[][..], |body| body.quotes).iter().flat_map(|&(open, close)| [open, close]);
        std::iter::once(&*self.text).chain(end).chain(quotes).filter(|text| text.chars().nth(1).is_some())
    }
}

/// Result of [`tag_at`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Match<T> {
    Full(T),
    /// The text is too short to decide.
    Partial,
    Missing,
}

/// Compares the start of `text` with tags. No tag may be the start of another one.
pub(super) fn tag_at<'t, T>(text: &str, tags: impl IntoIterator<Item = (&'t str, T)>) -> Match<T> {
    let mut result = Match::Missing;
    for (tag, value) in tags {
        if text.starts_with(tag) {
            return Match::Full(value);
        }
        if tag.starts_with(text) {
            result = Match::Partial;
        }
    }
    result
}
