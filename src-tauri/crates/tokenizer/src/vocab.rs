//! The vocabulary of a file. Key names and type numbers are those of the GGUF specification, section "Tokenizer"
//! (github.com/ggml-org/ggml/blob/master/docs/gguf.md).

use cairn_gguf::{Array, Metadata, Value};

use crate::error::Error;

/// Maximum number of tokens, and of merges: ten times the largest published vocabulary.
pub const MAX_ENTRIES: usize = 4 << 20;

/// Tokenizer metadata of a GGUF file. Lists that the model does not need may be empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vocab {
    /// `tokenizer.ggml.model`: the kind of tokenizer.
    pub model: String,
    /// `tokenizer.ggml.pre`: the pre-tokenizer's name, empty when the file has none.
    pub pre: String,
    /// `tokenizer.ggml.tokens`, by id.
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.merges`, best first, two parts with a blank between.
    pub merges: Vec<String>,
    /// `tokenizer.ggml.scores`, by id.
    pub scores: Vec<f32>,
    /// `tokenizer.ggml.token_type`, by id; empty means that all are normal.
    pub types: Vec<i32>,
    /// `tokenizer.ggml.precompiled_charsmap`, empty when the file has none.
    pub charsmap: Vec<u8>,
    /// `tokenizer.ggml.bos_token_id`.
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`.
    pub eos: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`.
    pub eot: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unknown: Option<u32>,
    /// `tokenizer.ggml.seperator_token_id`, in the specification's spelling.
    pub separator: Option<u32>,
    /// `tokenizer.ggml.cls_token_id`.
    pub class: Option<u32>,
    /// Further ids that end a generation: `eom_token_id`, `fim_pad_token_id`, `fim_rep_token_id`, `fim_sep_token_id`, and
    /// `eos_token_ids`, which only Ollama's converter writes.
    pub end_ids: Vec<u32>,
    /// `tokenizer.ggml.add_bos_token`.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`.
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`.
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.ggml.remove_extra_whitespaces`.
    pub remove_extra_whitespaces: Option<bool>,
    /// `tokenizer.ggml.normalizer.lowercase`.
    pub lowercase: Option<bool>,
    /// `tokenizer.ggml.normalizer.strip_accents`.
    pub strip_accents: Option<bool>,
    /// `general.name`, which identifies vocabularies that strip white space around special tokens.
    pub name: String,
    /// `general.architecture`, for the same purpose.
    pub architecture: String,
}

/// Kind of a token, from its number in `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Text; the only kind that merging may produce.
    Normal,
    /// Replaces text that the vocabulary cannot encode.
    Unknown,
    /// Structure, never shown: begin, end, roles.
    Control,
    /// Structure that is shown, because the parser of the answer needs it. Found by name, see `end_tokens`.
    Marker,
    /// Text that is always one token, in any context.
    UserDefined,
    /// Padding of the table.
    Unused,
    /// One byte, named `<0xAB>`.
    Byte,
}

impl TokenKind {
    fn from_number(number: i32) -> TokenKind {
        match number {
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            // 0 is "undefined" in the specification; the text is still text.
            _ => TokenKind::Normal,
        }
    }
}

/// Returns the byte of a token named `<0xAB>`.
pub(crate) fn byte_name(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let hexadecimal = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| hexadecimal)
}

/// Further keys whose ids end a generation.
const END_KEYS: [&str; 4] = ["eom", "fim_pad", "fim_rep", "fim_sep"];

const SCORES: &str = "tokenizer.ggml.scores";
const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";

impl Vocab {
    /// Reads the vocabulary from a file's metadata.
    ///
    /// # Errors
    /// When model or tokens are missing, or a key has a type that differs from the specification.
    pub fn from_metadata(metadata: &Metadata) -> Result<Vocab, Error> {
        let id = |role: &str| metadata.u32(&format!("tokenizer.ggml.{role}_token_id"));
        let flag = |name: &str| metadata.bool(&format!("tokenizer.ggml.{name}"));
        let text = |key: &str| Ok::<_, Error>(metadata.str(key)?.unwrap_or_default().to_owned());
        let mut end_ids =
            END_KEYS.into_iter().filter_map(|role| id(role).transpose()).collect::<Result<Vec<_>, _>>()?;
        end_ids.extend(metadata.u32s("tokenizer.ggml.eos_token_ids")?.unwrap_or_default());
        Ok(Vocab {
            model: metadata.required_str("tokenizer.ggml.model")?.to_owned(),
            pre: text("tokenizer.ggml.pre")?,
            tokens: metadata.required_strings("tokenizer.ggml.tokens")?.to_vec(),
            merges: metadata.strings("tokenizer.ggml.merges")?.unwrap_or_default().to_vec(),
            scores: scores(metadata)?,
            types: metadata.i32s("tokenizer.ggml.token_type")?.unwrap_or_default(),
            charsmap: charsmap(metadata)?,
            bos: id("bos")?,
            eos: id("eos")?,
            eot: id("eot")?,
            unknown: id("unknown")?,
            separator: id("seperator")?,
            class: id("cls")?,
            end_ids,
            add_bos: flag("add_bos_token")?,
            add_eos: flag("add_eos_token")?,
            add_space_prefix: flag("add_space_prefix")?,
            remove_extra_whitespaces: flag("remove_extra_whitespaces")?,
            lowercase: flag("normalizer.lowercase")?,
            strip_accents: flag("normalizer.strip_accents")?,
            name: text("general.name")?,
            architecture: text("general.architecture")?,
        })
    }

    /// Checks counts and ids, and returns the kinds by id.
    pub(crate) fn kinds(&self) -> Result<Vec<TokenKind>, Error> {
        let tokens = self.tokens.len();
        if tokens == 0 {
            return Err(Error::NoTokens);
        }
        if tokens > MAX_ENTRIES || self.merges.len() > MAX_ENTRIES {
            return Err(Error::TooLarge { tokens, merges: self.merges.len(), limit: MAX_ENTRIES });
        }
        // More types than tokens are harmless: some files pad only one of the tables.
        if !self.types.is_empty() && self.types.len() < tokens {
            return Err(Error::TypeCount { types: self.types.len(), tokens });
        }
        let named = [
            ("bos", self.bos),
            ("eos", self.eos),
            ("eot", self.eot),
            ("unknown", self.unknown),
            ("seperator", self.separator),
            ("cls", self.class),
        ];
        let end_ids = self.end_ids.iter().map(|&id| ("eos, eom or fim", Some(id)));
        for (role, id) in named.into_iter().chain(end_ids) {
            if let Some(id) = id.filter(|&id| id as usize >= tokens) {
                return Err(Error::IdOutOfRange { role, id, tokens });
            }
        }
        let mut kinds: Vec<TokenKind> =
            self.types.iter().take(tokens).map(|&number| TokenKind::from_number(number)).collect();
        kinds.resize(tokens, TokenKind::Normal);
        Ok(kinds)
    }

    /// Checks that each token has a score, for models that require it.
    pub(crate) fn check_scores(&self) -> Result<(), Error> {
        let (scores, tokens) = (self.scores.len(), self.tokens.len());
        if scores < tokens { Err(Error::ScoreCount { scores, tokens }) } else { Ok(()) }
    }
}

/// Reads the scores; some converters write them as integers.
fn scores(metadata: &Metadata) -> Result<Vec<f32>, Error> {
    match metadata.get(SCORES) {
        Some(Value::Array(Array::I32(scores))) => Ok(scores.iter().map(|&score| score as f32).collect()),
        _ => Ok(metadata.f32s(SCORES)?.unwrap_or_default().to_vec()),
    }
}

/// Reads the normalisation table, whose bytes are signed in some files.
fn charsmap(metadata: &Metadata) -> Result<Vec<u8>, Error> {
    match metadata.get(CHARSMAP) {
        None => Ok(Vec::new()),
        Some(Value::Array(Array::U8(bytes))) => Ok(bytes.clone()),
        Some(Value::Array(Array::I8(bytes))) => Ok(bytes.iter().map(|byte| byte.cast_unsigned()).collect()),
        Some(other) => {
            let (key, found) = (CHARSMAP.to_owned(), other.type_name());
            Err(cairn_gguf::Error::WrongType { key, expected: "array of u8", found }.into())
        }
    }
}
