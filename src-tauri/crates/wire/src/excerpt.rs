//! Excerpts of texts, for errors and the log: a client can send names and words of many megabytes.

use std::borrow::Cow;

/// Longest excerpt in characters.
const MAX_CHARS: usize = 100;

/// Returns a text as errors and log lines may quote it: at most 100 characters, and `…` for the rest.
#[must_use]
pub fn excerpt(text: &str) -> Cow<'_, str> {
    beginning(text, MAX_CHARS)
}

/// Returns at most this number of characters of a text, and `…` for the rest.
#[must_use]
pub fn beginning(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpt_of_a_long_text_is_its_beginning() {
        let exact = "ö".repeat(MAX_CHARS);
        assert_eq!(excerpt(&exact), exact, "a text of the maximum length is whole");
        assert_eq!(excerpt(&format!("{exact}x")), format!("{exact}…"));
        assert_eq!((beginning("abc", 2), beginning("\u{e9}b", 2)), ("ab…".into(), "\u{e9}b".into()));
    }
}
