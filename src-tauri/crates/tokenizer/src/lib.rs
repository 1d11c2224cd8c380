//! Conversion of text to token ids and back, with the vocabulary of a GGUF file.
//!
//! Encoding has three steps: special tokens are split off (`special`), the rest is encoded by the kind of tokenizer
//! that the file names (`model`), and BOS, EOS and separator are added according to the flags (`flags`). The kinds are
//! byte pairs (`byte_pairs`, with `pre` and `bpe`), SentencePiece BPE (`spm`), WordPiece (`wordpiece`) and Unigram
//! (`unigram`). Decoding joins the bytes of tokens and emits only complete characters (`decode`).
//!
//! **Invariant:** encoding and decoding never panic or fail. A vocabulary is validated once, when a [`Tokenizer`] is
//! created. Ids equal those of llama.cpp; the tests compare them for its published vocabularies.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]

mod alphabet;
mod blanks;
mod bpe;
mod byte_pairs;
mod char_symbols;
mod charsmap;
mod classes;
mod decode;
mod end_tokens;
mod error;
mod flags;
mod hash;
mod model;
mod pairs;
mod pieces;
mod pre;
mod recent_words;
mod special;
mod spm;
mod strip;
mod trie;
mod unigram;
mod vocab;
mod wordpiece;

pub use decode::Decoder;
pub use error::Error;
pub use vocab::{MAX_ENTRIES, Vocab};

use cairn_gguf::Metadata;

use flags::Flags;
use model::Model;
use pieces::Pieces;
use special::{Part, SpecialTokens};
use strip::StripRule;
use vocab::TokenKind;

/// Options of [`Tokenizer::encode`] for special tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodeOptions {
    /// Add BOS and EOS if the vocabulary's flags are set.
    pub add_special: bool,
    /// Parse names of control tokens in the text as these tokens. Must be off for text that a user wrote.
    pub parse_special: bool,
}

/// Encoder and decoder of a vocabulary. Immutable, so threads can share it.
#[derive(Debug)]
pub struct Tokenizer {
    model: Model,
    kinds: Vec<TokenKind>,
    /// Bytes of every token. For control tokens, the name.
    pieces: Pieces,
    flags: Flags,
    /// Whether encoding adds a blank at the start of a text.
    adds_space: bool,
    /// Ids that end a generation, ascending.
    end_ids: Vec<u32>,
    /// Tokens that are split off in every text.
    always_special: Option<SpecialTokens>,
    /// The same plus the control tokens.
    all_special: Option<SpecialTokens>,
}

impl Tokenizer {
    /// Validates a vocabulary and creates its tokenizer.
    ///
    /// # Errors
    /// When the model or pre-tokenizer is unknown, or lists and ids are inconsistent.
    pub fn new(vocab: Vocab) -> Result<Tokenizer, Error> {
        let mut kinds = vocab.kinds()?;
        let end_ids = end_tokens::resolve(&vocab, &mut kinds);
        let (model, flags) = Model::build(&vocab, &kinds)?;
        let mut pieces = Pieces::default();
        for (text, kind) in vocab.tokens.iter().zip(&kinds) {
            pieces.push(|bytes| model.piece(text, *kind, bytes));
        }
        let strips = StripRule::for_vocab(&vocab);
        let special = |wanted: &[TokenKind]| {
            let named = (0..).zip(&vocab.tokens).zip(&kinds);
            let chosen = named.filter(|(_, kind)| wanted.contains(kind));
            SpecialTokens::build(&chosen.map(|((id, text), _)| (id, text.as_str())).collect::<Vec<_>>(), strips)
        };
        Ok(Tokenizer {
            always_special: special(&[TokenKind::UserDefined])?,
            all_special: special(&[TokenKind::UserDefined, TokenKind::Control, TokenKind::Marker, TokenKind::Unknown])?,
            adds_space: model.adds_space(&flags),
            flags,
            model,
            kinds,
            pieces,
            end_ids,
        })
    }

    /// Creates a tokenizer from a file's metadata.
    ///
    /// # Errors
    /// As [`Vocab::from_metadata`] and [`Tokenizer::new`].
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, Error> {
        Tokenizer::new(Vocab::from_metadata(metadata)?)
    }

    /// Encodes `text`.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        ids.extend(self.flags.bos.filter(|_| options.add_special && self.flags.add_bos));
        let mut at_start = true;
        let mut append = |part: Part| match part {
            Part::Token(id) => {
                ids.push(id);
                at_start = true;
            }
            Part::Text(range) => {
                self.model.encode(text.get(range).unwrap_or_default(), at_start, &mut ids);
                at_start = false;
            }
        };
        match if options.parse_special { &self.all_special } else { &self.always_special } {
            Some(set) => set.split(text, append),
            None if text.is_empty() => {}
            None => append(Part::Text(0..text.len())),
        }
        ids.extend(self.flags.eos.filter(|_| options.add_special && self.flags.add_eos));
        ids.extend(self.flags.separator.filter(|_| options.add_special && self.flags.add_separator));
        ids
    }

    /// Returns the bytes of token `id` in a text, which may end inside a character. They are empty for control, unknown
    /// and unused tokens and for ids outside the vocabulary, but not for the control tokens that separate harmony
    /// channels.
    pub fn piece(&self, id: u32) -> &[u8] {
        match self.kind(id) {
            Some(TokenKind::Normal | TokenKind::UserDefined | TokenKind::Byte | TokenKind::Marker) => {
                self.pieces.get(id)
            }
            Some(TokenKind::Control | TokenKind::Unknown | TokenKind::Unused) | None => &[],
        }
    }

    /// Like [`Tokenizer::piece`], but returns the names of tokens that are not shown.
    pub fn piece_with_special(&self, id: u32) -> &[u8] {
        self.pieces.get(id)
    }

    /// Returns the id of the control token with this name.
    pub fn control_token(&self, name: &str) -> Option<u32> {
        match self.encode(name, EncodeOptions { add_special: false, parse_special: true })[..] {
            [id] if self.kind(id) == Some(TokenKind::Control) => Some(id),
            _ => None,
        }
    }

    /// Creates a decoder for ids that continue existing text. [`Decoder::new`] also accepts an `Arc` of the tokenizer.
    pub fn decoder(&self) -> Decoder<&Tokenizer> {
        Decoder::new(self)
    }

    /// Decodes `ids` of a whole text, without the blank that encoding adds at the start. Invalid UTF-8 becomes U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut decoder = Decoder::at_start(self);
        let mut text = String::new();
        for &id in ids {
            text += &decoder.push(id);
        }
        text + &decoder.finish()
    }

    /// Returns the number of tokens.
    pub fn vocab_size(&self) -> usize {
        self.kinds.len()
    }

    /// Returns the id of the BOS token.
    pub fn bos(&self) -> Option<u32> {
        self.flags.bos
    }

    /// Returns the id of the EOS token.
    pub fn eos(&self) -> Option<u32> {
        self.flags.eos
    }

    /// Returns whether [`EncodeOptions::add_special`] adds BOS. A prompt whose template contains BOS must not get a
    /// second one.
    pub fn adds_bos(&self) -> bool {
        self.flags.add_bos && self.flags.bos.is_some()
    }

    /// Returns whether `id` ends a generation.
    pub fn is_end(&self, id: u32) -> bool {
        self.end_ids.binary_search(&id).is_ok()
    }

    /// Returns all ids that end a generation, ascending.
    pub fn end_ids(&self) -> &[u32] {
        &self.end_ids
    }

    /// Returns whether `id` is a control token.
    pub fn is_control(&self, id: u32) -> bool {
        matches!(self.kind(id), Some(TokenKind::Control | TokenKind::Marker))
    }

    fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }
}

#[cfg(test)]
mod tests;
