//! Special ids and flags of a vocabulary, with defaults for each kind of tokenizer.
//!
//! The defaults are those of the first models of each kind (Llama 2, BERT, T5). An id outside the vocabulary is
//! ignored. Byte-pair vocabularies have no defaults, so their files must set all ids.

use crate::vocab::Vocab;

/// Special token ids of a vocabulary, and flags for the tokens that encoding adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) bos: Option<u32>,
    pub(crate) eos: Option<u32>,
    pub(crate) unknown: Option<u32>,
    /// Ends a text for an embedding model.
    pub(crate) separator: Option<u32>,
    pub(crate) add_bos: bool,
    pub(crate) add_eos: bool,
    pub(crate) add_separator: bool,
    pub(crate) add_space_prefix: bool,
}

impl Flags {
    /// SentencePiece BPE, as in Llama 2.
    pub(crate) fn sentence_piece(vocab: &Vocab) -> Flags {
        let ids = Defaults { bos: Some(1), eos: Some(2), unknown: Some(0), separator: None };
        let add = Flags { add_bos: true, add_space_prefix: true, ..NONE };
        ids.resolve(vocab, add)
    }

    /// WordPiece, as in BERT: CLS and SEP are always added, whatever the file's flags are, as in llama.cpp.
    pub(crate) fn word_piece(vocab: &Vocab) -> Flags {
        let ids = Defaults { bos: vocab.class.or(Some(101)), eos: None, unknown: Some(100), separator: Some(102) };
        Flags {
            add_bos: true,
            add_eos: false,
            add_separator: true,
            add_space_prefix: false,
            ..ids.resolve(vocab, NONE)
        }
    }

    /// Unigram, as in T5.
    pub(crate) fn unigram(vocab: &Vocab) -> Flags {
        let ids = Defaults { bos: None, eos: Some(1), unknown: Some(2), separator: None };
        ids.resolve(vocab, Flags { add_eos: true, ..NONE })
    }

    /// Byte pairs; the pre-tokenizer determines the default of `add_bos`.
    pub(crate) fn byte_pairs(vocab: &Vocab, add_bos: bool) -> Flags {
        let ids = Defaults { bos: None, eos: None, unknown: None, separator: None };
        ids.resolve(vocab, Flags { add_bos, ..NONE })
    }
}

const NONE: Flags = Flags {
    bos: None,
    eos: None,
    unknown: None,
    separator: None,
    add_bos: false,
    add_eos: false,
    add_separator: false,
    add_space_prefix: false,
};

/// Ids used if the file has none.
struct Defaults {
    bos: Option<u32>,
    eos: Option<u32>,
    unknown: Option<u32>,
    separator: Option<u32>,
}

impl Defaults {
    fn resolve(self, vocab: &Vocab, add: Flags) -> Flags {
        let or =
            |id: Option<u32>, default: Option<u32>| id.or(default.filter(|&id| (id as usize) < vocab.tokens.len()));
        Flags {
            bos: or(vocab.bos, self.bos),
            eos: or(vocab.eos, self.eos),
            unknown: or(vocab.unknown, self.unknown),
            separator: or(vocab.separator, self.separator),
            add_bos: vocab.add_bos.unwrap_or(add.add_bos),
            add_eos: vocab.add_eos.unwrap_or(add.add_eos),
            add_separator: add.add_separator,
            add_space_prefix: vocab.add_space_prefix.unwrap_or(add.add_space_prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(resolve: fn(&Vocab) -> Flags, tokens: usize, change: fn(&mut Vocab), wanted: Flags) {
        let mut vocab = Vocab { tokens: vec![String::new(); tokens], ..Vocab::default() };
        change(&mut vocab);
        assert_eq!(resolve(&vocab), wanted, "{vocab:?}");
    }

    #[test]
    fn missing_keys_use_defaults_of_the_kind() {
        let llama =
            Flags { bos: Some(1), eos: Some(2), unknown: Some(0), add_bos: true, add_space_prefix: true, ..NONE };
        check(Flags::sentence_piece, 32_000, |_| {}, llama);
        check(Flags::sentence_piece, 2, |_| {}, Flags { eos: None, ..llama });
        let bert = Flags {
            bos: Some(101),
            unknown: Some(100),
            separator: Some(102),
            add_bos: true,
            add_separator: true,
            ..NONE
        };
        check(Flags::word_piece, 30_522, |_| {}, bert);
        check(Flags::unigram, 32_100, |_| {}, Flags { eos: Some(1), unknown: Some(2), add_eos: true, ..NONE });
        check(|vocab| Flags::byte_pairs(vocab, true), 50_000, |_| {}, Flags { add_bos: true, ..NONE });
    }

    #[test]
    fn gguf_keys_override_default_token_flags() {
        let keys = |vocab: &mut Vocab| {
            (vocab.bos, vocab.eos, vocab.unknown) = (Some(5), Some(6), Some(7));
            (vocab.add_bos, vocab.add_eos, vocab.add_space_prefix) = (Some(false), Some(true), Some(false));
        };
        let wanted = Flags { bos: Some(5), eos: Some(6), unknown: Some(7), add_eos: true, ..NONE };
        check(Flags::sentence_piece, 10, keys, wanted);
        check(Flags::unigram, 10, keys, wanted);
        let class = |vocab: &mut Vocab| (vocab.class, vocab.add_bos) = (Some(3), Some(false));
        let bert = Flags { bos: Some(3), add_bos: true, add_separator: true, ..NONE };
        check(Flags::word_piece, 10, class, bert);
    }
}
