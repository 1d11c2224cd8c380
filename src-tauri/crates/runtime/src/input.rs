//! Inputs of models with an encoder and a decoder.
//!
//! The prompt of such a model is its input. The encoder computes a row for each token of it, and the scheduler stores the keys and
//! values of these rows in the first slots of the sequence, so that they are cached and restored like those of tokens. A row depends
//! on the whole input. So its key in the cache is a digest of all tokens, and rows of another input are never used, however long the
//! prefix that both have.

use std::sync::Arc;

use cairn_tier::Key;

use crate::scoped_content::ScopedContent;

/// Rows of the encoder for an input, `[tokens, width]`.
pub(crate) type InputRows = Arc<[f32]>;

/// The input of a sequence, which is the beginning of its history.
pub(crate) struct SequenceInput {
    /// Number of tokens.
    pub(crate) tokens: usize,
    /// The encoder's rows, from their computation until their keys and values are stored.
    pub(crate) rows: Option<InputRows>,
}

/// Identity of an input of a request: the key of its first row, which is a digest of all tokens.
pub(crate) type InputId = ScopedContent<Key>;

/// Returns the cache keys of the rows of an input.
pub(crate) fn keys(input: &[u32]) -> Vec<Key> {
    let tokens: Vec<u8> = input.iter().flat_map(|token| token.to_le_bytes()).collect();
    // Hashed once, so that the time for all keys is proportional to the number of tokens.
    let digest = Key::part_of(&[b"input", &tokens], 0).to_le_bytes();
    (0..input.len() as u32).map(|part| Key::part_of(&[b"row of an input", &digest], part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_an_input_depend_on_all_its_tokens() {
        let whole = keys(&[5, 6, 7]);
        assert_eq!(whole, keys(&[5, 6, 7]), "equal inputs");
        assert_eq!(whole.len(), 3, "one for each row");
        for other in [&[5, 6, 8][..], &[5, 6], &[5, 6, 7, 0], &[6, 5, 7]] {
            assert!(keys(other).iter().all(|key| !whole.contains(key)), "{other:?} has other rows");
        }
        assert!(whole.iter().all(|key| key.as_token().is_none()), "a token has another key");
    }
}
