//! Text to token ids and back, from the vocabulary that a GGUF file carries.
//!
//! Encoding goes through three steps: special tokens are cut out (`special`), the rest is encoded by the kind of tokenizer that
//! the file names (`model`), and BOS, EOS and the like are added as the flags say (`flags`). The kinds are byte pairs
//! (`byte_pairs`, with `pre` and `bpe`), SentencePiece BPE (`spm`), WordPiece (`wordpiece`) and Unigram (`unigram`). Decoding
//! joins the bytes of tokens and shows whole characters only (`decode`).
//!
//! **Invariant:** nothing here panics or fails on text or ids, whatever they are; a vocabulary is checked once, when a
//! [`Tokenizer`] is made of it. Ids equal those of llama.cpp, which the tests hold against its published vocabularies.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]

mod alphabet;
mod blanks;
mod bpe;
mod byte_pairs;
mod charsmap;
mod classes;
mod decode;
mod ends;
mod error;
mod flags;
mod hash;
mod letters;
mod model;
mod pairs;
mod pieces;
mod pre;
mod recent;
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
use vocab::Kind;

/// How special tokens take part in [`Tokenizer::encode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Special {
    /// Adds BOS and EOS where the vocabulary's flags ask for them.
    pub add: bool,
    /// Reads the names of control tokens in the text as those tokens. Off for text that a user wrote.
    pub parse: bool,
}

/// A vocabulary made ready for encoding and decoding. It is immutable, so one can be shared by all threads.
#[derive(Debug)]
pub struct Tokenizer {
    model: Model,
    kinds: Vec<Kind>,
    /// The bytes of every token, control tokens by their names.
    pieces: Pieces,
    flags: Flags,
    /// Whether a text's first piece begins with a blank that is not in the text.
    adds_blank: bool,
    /// Ids that end a generation, ascending.
    ends: Vec<u32>,
    /// Tokens that are cut out of any text.
    always_special: Option<SpecialTokens>,
    /// Those and the control tokens.
    all_special: Option<SpecialTokens>,
}

impl Tokenizer {
    /// Checks a vocabulary and makes it ready.
    ///
    /// # Errors
    /// When the model or pre-tokenizer is not known, or when lists and ids do not fit together.
    pub fn new(vocab: Vocab) -> Result<Tokenizer, Error> {
        let mut kinds = vocab.kinds()?;
        let ends = ends::settle(&vocab, &mut kinds);
        let (model, flags) = Model::build(&vocab, &kinds)?;
        let mut pieces = Pieces::default();
        for (text, kind) in vocab.tokens.iter().zip(&kinds) {
            pieces.push(|bytes| model.piece(text, *kind, bytes));
        }
        let strips = StripRule::of(&vocab);
        let special = |wanted: &[Kind]| {
            let named = (0..).zip(&vocab.tokens).zip(&kinds);
            let chosen = named.filter(|(_, kind)| wanted.contains(kind));
            SpecialTokens::build(&chosen.map(|((id, text), _)| (id, text.as_str())).collect::<Vec<_>>(), strips)
        };
        Ok(Tokenizer {
            always_special: special(&[Kind::UserDefined])?,
            all_special: special(&[Kind::UserDefined, Kind::Control, Kind::Marker, Kind::Unknown])?,
            adds_blank: model.adds_blank(&flags),
            flags,
            model,
            kinds,
            pieces,
            ends,
        })
    }

    /// [`Tokenizer::new`] of what a file's metadata holds.
    ///
    /// # Errors
    /// As [`Vocab::from_metadata`] and [`Tokenizer::new`].
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, Error> {
        Tokenizer::new(Vocab::from_metadata(metadata)?)
    }

    /// The ids of `text`.
    pub fn encode(&self, text: &str, special: Special) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        ids.extend(self.flags.bos.filter(|_| special.add && self.flags.add_bos));
        let mut fresh = true;
        let mut take = |part: Part| match part {
            Part::Token(id) => {
                ids.push(id);
                fresh = true;
            }
            Part::Text(range) => {
                self.model.encode(text.get(range).unwrap_or_default(), fresh, &mut ids);
                fresh = false;
            }
        };
        match if special.parse { &self.all_special } else { &self.always_special } {
            Some(set) => set.split(text, take),
            None if text.is_empty() => {}
            None => take(Part::Text(0..text.len())),
        }
        ids.extend(self.flags.eos.filter(|_| special.add && self.flags.add_eos));
        ids.extend(self.flags.separator.filter(|_| special.add && self.flags.add_separator));
        ids
    }

    /// The bytes that token `id` adds to a text, which may end within a character. Control, unknown and unused tokens add
    /// none, nor do ids outside the vocabulary; only the control tokens that part the channels of an answer in the harmony format
    /// do.
    pub fn piece(&self, id: u32) -> &[u8] {
        match self.kind(id) {
            Some(Kind::Normal | Kind::UserDefined | Kind::Byte | Kind::Marker) => self.pieces.get(id),
            Some(Kind::Control | Kind::Unknown | Kind::Unused) | None => &[],
        }
    }

    /// Like [`Tokenizer::piece`], but tokens that are not shown give their names.
    pub fn piece_with_special(&self, id: u32) -> &[u8] {
        self.pieces.get(id)
    }

    /// A decoder for ids that come one by one and go on from text that is there. [`Decoder::new`] makes one that keeps an `Arc`
    /// of the tokenizer.
    pub fn decoder(&self) -> Decoder<&Tokenizer> {
        Decoder::new(self)
    }

    /// The text of `ids`, which are a text from its start: the blank that encoding puts in front goes. Bytes that are not UTF-8
    /// become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut decoder = Decoder::at_start(self);
        let mut text = String::new();
        for &id in ids {
            text += &decoder.push(id);
        }
        text + &decoder.finish()
    }

    /// How many tokens there are; ids run from 0 to one less.
    pub fn vocab_size(&self) -> usize {
        self.kinds.len()
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.flags.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.flags.eos
    }

    /// Whether [`Special::add`] puts BOS in front. A prompt whose template wrote BOS already must not get a second one.
    pub fn adds_bos(&self) -> bool {
        self.flags.add_bos && self.flags.bos.is_some()
    }

    /// Whether generation is over when the model gives `id`.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// Every id for which [`Tokenizer::is_end`] holds, ascending.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Whether `id` is structure rather than text.
    pub fn is_control(&self, id: u32) -> bool {
        matches!(self.kind(id), Some(Kind::Control | Kind::Marker))
    }

    fn kind(&self, id: u32) -> Option<Kind> {
        self.kinds.get(id as usize).copied()
    }
}

#[cfg(test)]
mod tests;
