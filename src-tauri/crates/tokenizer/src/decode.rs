//! Ids back to text, as they come: bytes of a token may end within a character, and half a character is never shown.

use std::ops::Deref;

use crate::Tokenizer;

/// Turns ids into text one by one. `T` is how the tokenizer is held: `&Tokenizer`, or an `Arc<Tokenizer>` to keep it.
///
/// **Invariant:** what `push` gave so far followed by `finish` equals [`Tokenizer::decode`] of the same ids for a decoder at the
/// start of a text; one that goes on from other text gives the blank in front as well, as that is real there.
#[derive(Debug, Clone)]
pub struct Decoder<T> {
    tokenizer: T,
    utf8: Utf8Stream,
    /// Whether the next piece may begin with a blank that was added.
    at_start: bool,
}

impl<T: Deref<Target = Tokenizer>> Decoder<T> {
    /// A decoder of ids that go on from text that is there, as the answer to a prompt does.
    pub fn new(tokenizer: T) -> Self {
        Decoder { tokenizer, utf8: Utf8Stream::default(), at_start: false }
    }

    /// A decoder at the start of a text.
    pub fn at_start(tokenizer: T) -> Self {
        Decoder { at_start: tokenizer.adds_blank, ..Decoder::new(tokenizer) }
    }

    /// The text that became certain with `id`; empty when the token is a control token, or ends within a character.
    pub fn push(&mut self, id: u32) -> String {
        let mut text = String::new();
        let mut piece = self.tokenizer.piece(id);
        if self.at_start && !piece.is_empty() {
            self.at_start = false;
            piece = piece.strip_prefix(b" ").unwrap_or(piece);
        }
        self.utf8.push(piece, &mut text);
        text
    }

    /// What is left: a cut-off character becomes U+FFFD.
    pub fn finish(mut self) -> String {
        let mut text = String::new();
        self.utf8.finish(&mut text);
        text
    }
}

/// Decodes UTF-8 that arrives in parts; bytes that cannot be UTF-8 become U+FFFD at once, as `String::from_utf8_lossy` does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Utf8Stream {
    /// The beginning of a character, at most three bytes.
    pending: Vec<u8>,
}

impl Utf8Stream {
    pub(crate) fn push(&mut self, bytes: &[u8], text: &mut String) {
        self.pending.extend_from_slice(bytes);
        let mut rest = self.pending.as_slice();
        loop {
            let error = match str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => error,
            };
            let (valid, after) = rest.split_at_checked(error.valid_up_to()).unwrap_or((rest, &[]));
            text.push_str(str::from_utf8(valid).unwrap_or_default());
            rest = after;
            match error.error_len() {
                Some(bad) => {
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = rest.get(bad..).unwrap_or_default();
                }
                // The end may still be completed.
                None => break,
            }
        }
        let keep = rest.len();
        self.pending.drain(..self.pending.len() - keep);
    }

    pub(crate) fn finish(&mut self, text: &mut String) {
        text.push_str(&String::from_utf8_lossy(&self.pending));
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(parts: &[&[u8]]) {
        let mut stream = Utf8Stream::default();
        let mut text = String::new();
        for part in parts {
            stream.push(part, &mut text);
            assert!(stream.pending.len() < 4, "more than the start of one character is held back: {parts:?}");
        }
        stream.finish(&mut text);
        assert_eq!(text, String::from_utf8_lossy(&parts.concat()), "{parts:?}");
    }

    #[test]
    fn a_character_in_parts() {
        let mut stream = Utf8Stream::default();
        let mut text = String::new();
        stream.push(&[b'a', 0xF0, 0x9F], &mut text);
        assert_eq!(text, "a", "half a character is not shown");
        stream.push(&[0xA6, 0x99], &mut text);
        assert_eq!(text, "a🦙", "the whole one is");
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_parts(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..12)) {
            check(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }

        #[test]
        fn text_cut_anywhere(text in any::<String>(), size in 1..5_usize) {
            check(&text.as_bytes().chunks(size).collect::<Vec<_>>());
        }
    }
}
