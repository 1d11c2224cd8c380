//! The kinds of tokenizers, by `tokenizer.ggml.model`: each turns a part of the input that holds no special tokens into ids, and
//! says which bytes its tokens stand for.

use crate::alphabet;
use crate::blanks;
use crate::bpe::Start;
use crate::byte_pairs::BytePairs;
use crate::error::Error;
use crate::flags::Flags;
use crate::spm::SentencePiece;
use crate::unigram::Unigram;
use crate::vocab::{Kind, Vocab, byte_name};
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
    /// Makes the kind that the file names, and settles its flags.
    pub(crate) fn build(vocab: &Vocab, kinds: &[Kind]) -> Result<(Model, Flags), Error> {
        match vocab.model.as_str() {
            "gpt2" => {
                let model = BytePairs::build(vocab, kinds, &vocab.pre)?;
                let mut flags = Flags::byte_pairs(vocab, model.usual_bos());
                // Files made before the flag was written right say that Gemma 4 takes no BOS; it always does.
                flags.add_bos |= model.start() == Start::Characters && model.usual_bos();
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

    /// Appends the ids of a part of the input; `fresh` when nothing or a special token stands in front of it.
    pub(crate) fn encode(&self, part: &str, fresh: bool, ids: &mut Vec<u32>) {
        match self {
            Model::BytePairs(model) => model.encode(part, ids),
            Model::SentencePiece(model) => model.encode(part, fresh, ids),
            Model::WordPiece(model) => model.encode(part, ids),
            Model::Unigram(model) => model.encode(part, ids),
        }
    }

    /// Appends the bytes that a token of this text and kind stands for.
    pub(crate) fn piece(&self, text: &str, kind: Kind, bytes: &mut Vec<u8>) {
        match kind {
            Kind::Normal => match self {
                Model::BytePairs(model) if model.start() == Start::Bytes => alphabet::bytes_of(text, bytes),
                _ => blanks::unescape(text, bytes),
            },
            Kind::Byte => match byte_name(text) {
                Some(byte) => bytes.push(byte),
                None => bytes.extend_from_slice(text.as_bytes()),
            },
            Kind::Control | Kind::Marker | Kind::Unknown | Kind::Unused | Kind::UserDefined => {
                bytes.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// Whether the first word of a text gets a blank that is not in the text.
    pub(crate) fn adds_blank(&self, flags: &Flags) -> bool {
        match self {
            Model::BytePairs(_) => false,
            Model::WordPiece(_) => true,
            Model::SentencePiece(_) | Model::Unigram(_) => flags.add_space_prefix,
        }
    }
}
