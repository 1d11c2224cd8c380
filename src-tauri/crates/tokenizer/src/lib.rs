//! Text to token ids and back, from the vocabulary that a GGUF file carries.
//!
//! Encoding goes through four steps, each with a module: special tokens are cut out (`special`), the rest is cut into words
//! (`pre`), the bytes of each word are merged (`bpe`), and BOS and EOS are added as the file's flags say. Decoding joins the
//! bytes of tokens and shows whole characters only (`decode`).
//!
//! **Invariant:** nothing here panics or fails on text or ids, whatever they are; a vocabulary is checked once, when a
//! [`Tokenizer`] is made of it. Ids equal those of llama.cpp, which the tests hold against its published vocabularies.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used))]

mod alphabet;
mod bpe;
mod classes;
mod decode;
mod ends;
mod error;
mod pieces;
mod pre;
mod special;
mod vocab;

pub use decode::Decoder;
pub use error::Error;
pub use vocab::{MAX_ENTRIES, Vocab};

use cairn_gguf::Metadata;

use bpe::{Merges, Scratch};
use decode::Utf8Stream;
use pieces::{Index, Pieces};
use pre::PreTokenizer;
use special::{Part, SpecialTokens};
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
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    add_eos: bool,
    /// Ids that end a generation, ascending.
    ends: Vec<u32>,
    /// Tokens that are cut out of any text.
    always_special: Option<SpecialTokens>,
    /// Those and the control tokens.
    all_special: Option<SpecialTokens>,
}

/// The kinds of tokenizers, by `tokenizer.ggml.model`.
#[derive(Debug)]
enum Model {
    BytePairs(BytePairs),
}

/// Byte-level BPE, `gpt2` in files.
#[derive(Debug)]
struct BytePairs {
    pre: PreTokenizer,
    merges: Merges,
    /// Words that are tokens as they stand, for pre-tokenizers that ask for it.
    whole_words: Option<Index>,
}

impl Tokenizer {
    /// Checks a vocabulary and makes it ready.
    ///
    /// # Errors
    /// When the model or pre-tokenizer is not known, or when lists and ids do not fit together.
    pub fn new(vocab: Vocab) -> Result<Tokenizer, Error> {
        let mut kinds = vocab.kinds()?;
        let ends = ends::settle(&vocab, &mut kinds);
        if vocab.model != "gpt2" {
            return Err(Error::UnknownModel { model: vocab.model });
        }
        let pre = PreTokenizer::named(&vocab.pre)?;
        let merges = Merges::build(&vocab)?;
        let mut pieces = Pieces::default();
        for (text, kind) in vocab.tokens.iter().zip(&kinds) {
            pieces.push(|bytes| match kind {
                Kind::Normal => alphabet::bytes_of(text, bytes),
                Kind::Byte => match byte_name(text) {
                    Some(byte) => bytes.push(byte),
                    None => bytes.extend_from_slice(text.as_bytes()),
                },
                Kind::Control | Kind::Unknown | Kind::Unused | Kind::UserDefined => {
                    bytes.extend_from_slice(text.as_bytes())
                }
            });
        }
        let kind_of = |id: u32| kinds.get(id as usize).copied().unwrap_or(Kind::Unknown);
        let whole_words = pre.whole_words.then(|| Index::build(&pieces, |id| kind_of(id) == Kind::Normal));
        let special = |wanted: &[Kind]| {
            let named = (0..).zip(&vocab.tokens).map(|(id, text)| (id, text.as_str()));
            let chosen = named.filter(|&(id, text)| !text.is_empty() && wanted.contains(&kind_of(id)));
            SpecialTokens::build(&chosen.collect::<Vec<_>>())
        };
        Ok(Tokenizer {
            always_special: special(&[Kind::UserDefined])?,
            all_special: special(&[Kind::UserDefined, Kind::Control, Kind::Unknown])?,
            add_bos: vocab.add_bos.unwrap_or(pre.add_bos),
            add_eos: vocab.add_eos.unwrap_or(false),
            model: Model::BytePairs(BytePairs { pre, merges, whole_words }),
            kinds,
            pieces,
            bos: vocab.bos,
            eos: vocab.eos,
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
        ids.extend(self.bos.filter(|_| special.add && self.add_bos));
        let set = if special.parse { &self.all_special } else { &self.always_special };
        match set {
            None => self.model.encode(&self.pieces, text, &mut ids),
            Some(set) => set.split(text, |part| match part {
                Part::Token(id) => ids.push(id),
                Part::Text(range) => self.model.encode(&self.pieces, text.get(range).unwrap_or_default(), &mut ids),
            }),
        }
        ids.extend(self.eos.filter(|_| special.add && self.add_eos));
        ids
    }

    /// The bytes that token `id` adds to a text, which may end within a character. Control, unknown and unused tokens add
    /// none, nor do ids outside the vocabulary.
    pub fn piece(&self, id: u32) -> &[u8] {
        match self.kind(id) {
            Some(Kind::Normal | Kind::UserDefined | Kind::Byte) => self.pieces.get(id),
            Some(Kind::Control | Kind::Unknown | Kind::Unused) | None => &[],
        }
    }

    /// Like [`Tokenizer::piece`], but tokens that are not shown give their names.
    pub fn piece_with_special(&self, id: u32) -> &[u8] {
        self.pieces.get(id)
    }

    /// A decoder for ids that come one by one. [`Decoder::new`] makes one that keeps an `Arc` of the tokenizer.
    pub fn decoder(&self) -> Decoder<&Tokenizer> {
        Decoder::new(self)
    }

    /// The text of `ids`; bytes that are not UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut text = String::new();
        let mut utf8 = Utf8Stream::default();
        for &id in ids {
            utf8.push(self.piece(id), &mut text);
        }
        utf8.finish(&mut text);
        text
    }

    /// How many tokens there are; ids run from 0 to one less.
    pub fn vocab_size(&self) -> usize {
        self.kinds.len()
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether [`Special::add`] puts BOS in front. A prompt whose template wrote BOS already must not get a second one.
    pub fn adds_bos(&self) -> bool {
        self.add_bos && self.bos.is_some()
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
        self.kind(id) == Some(Kind::Control)
    }

    fn kind(&self, id: u32) -> Option<Kind> {
        self.kinds.get(id as usize).copied()
    }
}

impl Model {
    fn encode(&self, pieces: &Pieces, text: &str, ids: &mut Vec<u32>) {
        match self {
            Model::BytePairs(model) => model.encode(pieces, text, ids),
        }
    }
}

impl BytePairs {
    fn encode(&self, pieces: &Pieces, text: &str, ids: &mut Vec<u32>) {
        let mut scratch = Scratch::default();
        let mut recent = Recent::for_text(text);
        self.pre.words(text, |range| {
            let word = text.get(range).unwrap_or_default().as_bytes();
            if let Some(id) = self.whole_words.as_ref().and_then(|index| index.find(pieces, word)) {
                return ids.push(id);
            }
            let start = ids.len();
            if !recent.repeat(word, ids) {
                self.merges.encode(word, &mut scratch, ids);
                recent.remember(word, start, ids.len());
            }
        });
    }
}

/// Words of this text that were merged already, by a hash: one per slot, the newest stays. Text repeats itself, and copying ids
/// is several times faster than merging.
struct Recent<'t> {
    slots: Vec<(&'t [u8], usize, usize)>,
}

impl<'t> Recent<'t> {
    /// Below this many bytes a text is done before the table pays for itself.
    const WORTH_IT_BYTES: usize = 2048;
    const SLOTS: usize = 4096;
    /// Longer words hardly ever repeat.
    const LONGEST_BYTES: usize = 32;

    fn for_text(text: &str) -> Recent<'t> {
        let slots = if text.len() < Self::WORTH_IT_BYTES { 0 } else { Self::SLOTS };
        Recent { slots: vec![(&[], 0, 0); slots] }
    }

    /// Appends the ids of `word` if it was seen before.
    fn repeat(&self, word: &[u8], ids: &mut Vec<u32>) -> bool {
        let Some(&(known, start, end)) = self.slots.get(Self::slot(word)) else { return false };
        let found = known == word && !word.is_empty() && end <= ids.len();
        if found {
            ids.extend_from_within(start..end);
        }
        found
    }

    fn remember(&mut self, word: &'t [u8], start: usize, end: usize) {
        if word.len() <= Self::LONGEST_BYTES
            && let Some(slot) = self.slots.get_mut(Self::slot(word))
        {
            *slot = (word, start, end);
        }
    }

    /// FNV-1a over the word, folded to a slot.
    fn slot(word: &[u8]) -> usize {
        let hash = word.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        (hash ^ (hash >> 32)) as usize % Self::SLOTS
    }
}

/// The byte that a token spelled `<0xAB>` stands for.
fn byte_name(text: &str) -> Option<u8> {
    u8::from_str_radix(text.strip_prefix("<0x")?.strip_suffix('>')?, 16).ok()
}

#[cfg(test)]
mod tests;
