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

/// The characters after which `text` goes on with a [`BLANK`]. Where no piece of a vocabulary has a character so, a text may be
/// cut behind it without changing what is merged: nothing reaches over such a place.
pub(crate) fn before_blanks(text: &str) -> impl Iterator<Item = char> {
    let after = text.chars().skip(1);
    text.chars().zip(after).filter(|&(letter, next)| next == BLANK && letter != BLANK).map(|(letter, _)| letter)
}

/// Where texts may be cut into words, each of which begins with blanks.
#[derive(Debug)]
pub(crate) struct Words {
    /// Characters that belong together with a blank behind them, ascending.
    joined: Vec<char>,
}

impl Words {
    /// Cuts before each run of blanks, except behind these characters.
    pub(crate) fn new(mut joined: Vec<char>) -> Words {
        joined.sort_unstable();
        joined.dedup();
        Words { joined }
    }

    /// Cuts `text`, which starts at `offset` of what the caller counts in.
    pub(crate) fn cut(&self, text: &str, offset: usize, emit: &mut impl FnMut(Range<usize>)) {
        let (mut start, mut end) = (0, 0);
        while end < text.len() {
            let rest = text.get(end..).unwrap_or_default();
            let word = rest.trim_start_matches(BLANK);
            end += rest.len() - word.len();
            end += word.find(BLANK).unwrap_or(word.len());
            let last = text.get(..end).and_then(|word| word.chars().next_back()).unwrap_or(BLANK);
            if end == text.len() || self.joined.binary_search(&last).is_err() {
                emit(offset + start..offset + end);
                start = end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(joined: &[char], text: &str, wanted: &[&str]) {
        let mut got = Vec::new();
        Words::new(joined.to_vec()).cut(text, 0, &mut |range| got.push(&text[range]));
        assert_eq!(got, wanted, "{text:?} with {joined:?} joined");
    }

    #[test]
    fn words_begin_with_blanks() {
        check(&[], "", &[]);
        check(&[], "▁a▁b", &["▁a", "▁b"]);
        check(&[], "ab▁▁▁c▁", &["ab", "▁▁▁c", "▁"]);
        check(&[], "▁▁", &["▁▁"]);
        check(&['>', 'b'], "a▁b▁c>▁▁d▁", &["a", "▁b▁c>▁▁d", "▁"]);
        check(&['b'], "ab▁", &["ab▁"]);
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
    fn characters_before_blanks() {
        for (text, wanted) in [("", ""), ("▁", ""), ("▁▁ab", ""), ("a▁", "a"), ("▁a▁▁b▁c", "ab")] {
            assert_eq!(before_blanks(text).collect::<String>(), wanted, "{text:?}");
        }
    }
}
