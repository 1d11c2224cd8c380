//! How SentencePiece writes blanks: as `▁` (U+2581), so that pieces and merges are plain text without white space.

use std::ops::Range;

/// The character that stands for a blank.
pub(crate) const BLANK: char = '\u{2581}';

/// Appends `text` with its blanks written as [`BLANK`].
pub(crate) fn escape(text: &str, into: &mut String) {
    into.extend(text.chars().map(|letter| if letter == ' ' { BLANK } else { letter }));
}

/// Appends the bytes of a token's text with each [`BLANK`] turned back.
pub(crate) fn unescape(text: &str, into: &mut Vec<u8>) {
    for part in text.split_inclusive(BLANK) {
        match part.strip_suffix(BLANK) {
            Some(before) => {
                into.extend_from_slice(before.as_bytes());
                into.push(b' ');
            }
            None => into.extend_from_slice(part.as_bytes()),
        }
    }
}

/// Whether a text has a [`BLANK`] after another character. If no piece of a vocabulary does, a text may be cut before each run
/// of blanks without changing what is merged: nothing reaches over such a place.
pub(crate) fn has_inner_blank(text: &str) -> bool {
    text.trim_start_matches(BLANK).contains(BLANK)
}

/// Cuts `text`, which starts at `offset` of what the caller counts in, before each run of [`BLANK`]s.
pub(crate) fn words(text: &str, offset: usize, emit: &mut impl FnMut(Range<usize>)) {
    let mut start = 0;
    while start < text.len() {
        let rest = text.get(start..).unwrap_or_default();
        let blanks = rest.len() - rest.trim_start_matches(BLANK).len();
        let word = rest.get(blanks..).unwrap_or_default();
        let end = start + blanks + word.find(BLANK).unwrap_or(word.len());
        emit(offset + start..offset + end);
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, wanted: &[&str]) {
        let mut got = Vec::new();
        words(text, 0, &mut |range| got.push(&text[range]));
        assert_eq!(got, wanted, "{text:?}");
    }

    #[test]
    fn words_begin_with_blanks() {
        check("", &[]);
        check("▁a▁b", &["▁a", "▁b"]);
        check("ab▁▁▁c▁", &["ab", "▁▁▁c", "▁"]);
        check("▁▁", &["▁▁"]);
    }

    #[test]
    fn escaping_and_back() {
        let mut escaped = String::new();
        escape(" a  b ", &mut escaped);
        assert_eq!(escaped, "▁a▁▁b▁", "each blank has its sign");
        let mut bytes = Vec::new();
        unescape(&escaped, &mut bytes);
        assert_eq!(bytes, b" a  b ", "and back");
    }

    #[test]
    fn inner_blanks() {
        for (text, wanted) in [("", false), ("▁", false), ("▁▁ab", false), ("a▁", true), ("▁a▁b", true)] {
            assert_eq!(has_inner_blank(text), wanted, "{text:?}");
        }
    }
}
