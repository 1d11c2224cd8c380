//! The kinds of tokenizers, by `tokenizer.ggml.model`. Each encodes a part of the input without special tokens, and
//! converts its tokens to bytes.

use crate::alphabet;
use crate::blanks;
use crate::bpe::Start;
use crate::byte_pairs::BytePairs;
use crate::error::Error;
use crate::flags::Flags;
use crate::spm::SentencePiece;
use crate::unigram::Unigram;
use crate::vocab::{TokenKind, Vocab, byte_name};
use crate::wordpiece::WordPiece;

/// A tokenizer of one kind.
#[derive(Debug)]
pub(crate) enum Model {
    BytePairs(Box<BytePairs>),
    SentencePiece(Box<SentencePiece>),
    WordPiece(Box<WordPiece>),
    Unigram(Box<Unigram>),
}

impl Model {
    /// Creates the kind that the file names, and resolves its flags.
    pub(crate) fn build(vocab: &Vocab, kinds: &[TokenKind]) -> Result<(Model, Flags), Error> {
        match vocab.model.as_str() {
            "gpt2" => {
                let model = BytePairs::build(vocab, kinds, &vocab.pre)?;
                let mut flags = Flags::byte_pairs(vocab, model.default_add_bos());
                // Older files wrongly have `add_bos_token` false for Gemma 4, which always needs BOS.
                flags.add_bos |= model.start() == Start::Characters && model.default_add_bos();
                Ok((Model::BytePairs(Box::new(model)), flags))
            }
            "gemma4" => {
                let model = BytePairs::build(vocab, kinds, "gemma4")?;
                let flags = Flags { add_bos: true, ..Flags::byte_pairs(vocab, true) };
                Ok((Model::BytePairs(Box::new(model)), flags))
            }
            "llama" => {
                vocab.check_scores()?;
                let flags = Flags::sentence_piece(vocab);
                let model = SentencePiece::build(vocab, kinds, flags.unknown, flags.add_space_prefix);
                Ok((Model::SentencePiece(Box::new(model)), flags))
            }
            "bert" => {
                let flags = Flags::word_piece(vocab);
                Ok((Model::WordPiece(Box::new(WordPiece::build(vocab, kinds, flags.unknown))), flags))
            }
            "t5" => {
                vocab.check_scores()?;
                let flags = Flags::unigram(vocab);
                let model = Unigram::build(vocab, kinds, flags.unknown, flags.add_space_prefix)?;
                Ok((Model::Unigram(Box::new(model)), flags))
            }
            _ => Err(Error::UnknownModel { model: vocab.model.clone() }),
        }
    }

    /// Appends the ids of a part of the input. `at_start`: the part begins the input or follows a special token.
    pub(crate) fn encode(&self, part: &str, at_start: bool, ids: &mut Vec<u32>) {
        match self {
            Model::BytePairs(model) => model.encode(part, ids),
            Model::SentencePiece(model) => model.encode(part, at_start, ids),
            Model::WordPiece(model) => model.encode(part, ids),
            Model::Unigram(model) => model.encode(part, ids),
        }
    }

    /// Appends the bytes of a token with this text and kind.
    pub(crate) fn piece(&self, text: &str, kind: TokenKind, bytes: &mut Vec<u8>) {
        match kind {
            TokenKind::Normal => match self {
                Model::BytePairs(model) if model.start() == Start::Bytes => alphabet::bytes_of(text, bytes),
                _ => blanks::unescape(text, bytes),
            },
            TokenKind::Byte => match byte_name(text) {
                Some(byte) => bytes.push(byte),
                None => bytes.extend_from_slice(text.as_bytes()),
            },
            TokenKind::Control
            | TokenKind::Marker
            | TokenKind::Unknown
            | TokenKind::Unused
            | TokenKind::UserDefined => {
                bytes.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// Returns whether encoding adds a blank at the start of a text.
    pub(crate) fn adds_space(&self, flags: &Flags) -> bool {
        match self {
            Model::BytePairs(_) => false,
            Model::WordPiece(_) => true,
            Model::SentencePiece(_) | Model::Unigram(_) => flags.add_space_prefix,
        }
    }
}
