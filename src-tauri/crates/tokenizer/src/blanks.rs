//! SentencePiece's form of blanks: `▁` (U+2581), so that pieces and merges contain no white space.

use std::ops::Range;

/// The character that replaces a blank.
pub(crate) const BLANK: char = '\u{2581}';

/// Appends `text` with blanks replaced by [`BLANK`].
pub(crate) fn escape(text: &str, into: &mut String) {
    into.extend(text.chars().map(|letter| if letter == ' ' { BLANK } else { letter }));
}

/// Appends the bytes of a token's text with each [`BLANK`] replaced by a blank.
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

/// Returns the characters of `text` that precede a [`BLANK`]. If no piece of a vocabulary has a character before a
/// blank, a text can be split after this character without changing the result of merging.
pub(crate) fn before_blanks(text: &str) -> impl Iterator<Item = char> {
    let after = text.chars().skip(1);
    text.chars().zip(after).filter(|&(letter, next)| next == BLANK && letter != BLANK).map(|(letter, _)| letter)
}

/// Splitter into words that begin with blanks.
#[derive(Debug)]
pub(crate) struct Words {
    /// Characters that a piece joins with a following blank, ascending.
    joined: Vec<char>,
}

impl Words {
    /// Creates a splitter that cuts before each run of blanks, except after the characters in `joined`.
    pub(crate) fn new(mut joined: Vec<char>) -> Words {
        joined.sort_unstable();
        joined.dedup();
        Words { joined }
    }

    /// Splits `text` and adds `offset` to all positions.
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
    fn escape_and_unescape_round_trip() {
        let mut escaped = String::new();
        escape(" a  b ", &mut escaped);
        assert_eq!(escaped, "▁a▁▁b▁", "each blank is replaced");
        let mut bytes = Vec::new();
        unescape(&escaped, &mut bytes);
        assert_eq!(bytes, b" a  b ", "blanks are restored");
    }

    #[test]
    fn before_blanks_lists_characters() {
        for (text, wanted) in [("", ""), ("▁", ""), ("▁▁ab", ""), ("a▁", "a"), ("▁a▁▁b▁c", "ab")] {
            assert_eq!(before_blanks(text).collect::<String>(), wanted, "{text:?}");
        }
    }
}
