//! Streaming decoder from ids to text. A token may end inside a character; only complete characters are emitted.

use std::ops::Deref;

use crate::Tokenizer;

/// Decodes ids one by one. `T` is `&Tokenizer`, or `Arc<Tokenizer>` for an owned decoder.
///
/// **Invariant:** for a decoder at the start of a text, the concatenated results of `push` and `finish` equal
/// [`Tokenizer::decode`] of the same ids. A decoder that continues other text keeps the leading blank, which belongs to
/// the text.
#[derive(Debug, Clone)]
pub struct Decoder<T> {
    tokenizer: T,
    utf8: Utf8Stream,
    /// Control tokens with a text that is emitted, ascending.
    visible: Vec<u32>,
    /// Whether the next piece may begin with an added blank.
    at_start: bool,
}

impl<T: Deref<Target = Tokenizer>> Decoder<T> {
    /// Creates a decoder for ids that continue existing text, such as the answer to a prompt.
    pub fn new(tokenizer: T) -> Self {
        Decoder { tokenizer, utf8: Utf8Stream::default(), visible: Vec::new(), at_start: false }
    }

    /// Creates a decoder for the start of a text.
    pub fn at_start(tokenizer: T) -> Self {
        Decoder { at_start: tokenizer.adds_space, ..Decoder::new(tokenizer) }
    }

    /// Emits the text of these control tokens too: a parser of the text needs them.
    #[must_use]
    pub fn with_visible(self, mut visible: Vec<u32>) -> Self {
        visible.sort_unstable();
        Decoder { visible, ..self }
    }

    /// Returns the text completed by `id`. Empty for a control token that is not visible, or if the token ends inside a character.
    pub fn push(&mut self, id: u32) -> String {
        let mut text = String::new();
        let mut piece = match self.visible.binary_search(&id) {
            Ok(_) => self.tokenizer.piece_with_special(id),
            Err(_) => self.tokenizer.piece(id),
        };
        if self.at_start && !piece.is_empty() {
            self.at_start = false;
            piece = piece.strip_prefix(b" ").unwrap_or(piece);
        }
        self.utf8.push(piece, &mut text);
        text
    }

    /// Returns the rest. An incomplete character becomes U+FFFD.
    pub fn finish(mut self) -> String {
        let mut text = String::new();
        self.utf8.finish(&mut text);
        text
    }
}

/// Streaming UTF-8 decoder. Invalid bytes become U+FFFD, as in `String::from_utf8_lossy`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Utf8Stream {
    /// The start of an incomplete character, at most three bytes.
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
            assert!(stream.pending.len() < 4, "more than one incomplete character is buffered: {parts:?}");
        }
        stream.finish(&mut text);
        assert_eq!(text, String::from_utf8_lossy(&parts.concat()), "{parts:?}");
    }

    #[test]
    fn split_character_is_emitted_when_complete() {
        let mut stream = Utf8Stream::default();
        let mut text = String::new();
        stream.push(&[b'a', 0xF0, 0x9F], &mut text);
        assert_eq!(text, "a", "an incomplete character is buffered");
        stream.push(&[0xA6, 0x99], &mut text);
        assert_eq!(text, "a🦙", "the complete character is emitted");
    }

    proptest! {
        #[test]
        fn random_bytes_in_random_parts_decode_lossily(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..12)) {
            check(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }

        #[test]
        fn text_split_at_any_byte_decodes(text in any::<String>(), size in 1..5_usize) {
            check(&text.as_bytes().chunks(size).collect::<Vec<_>>());
        }
    }
}
