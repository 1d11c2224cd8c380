//! A vocabulary as it lies in a file, before anything is derived from it. Key names and type numbers are those of the GGUF
//! specification, section "Tokenizer" (github.com/ggml-org/ggml/blob/master/docs/gguf.md).

use cairn_gguf::Metadata;

use crate::error::Error;

/// The most tokens, and the most merges, that are accepted: ten times the largest vocabulary published so far.
pub const MAX_ENTRIES: usize = 4 << 20;

/// What a GGUF file says about its tokenizer; every list may be empty where the model needs none.
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
    /// `tokenizer.ggml.bos_token_id`.
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`.
    pub eos: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`.
    pub eot: Option<u32>,
    /// Further ids that end a generation: `eom_token_id`, `fim_pad_token_id`, `fim_rep_token_id`, `fim_sep_token_id`.
    pub ends: Vec<u32>,
    /// `tokenizer.ggml.add_bos_token`.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`.
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`.
    pub add_space_prefix: Option<bool>,
}

/// What a token is, from its number in `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text; the only kind that merging may produce.
    Normal,
    /// Stands for what the vocabulary cannot say.
    Unknown,
    /// Structure, never shown: begin, end, roles.
    Control,
    /// Text that is always one token, whatever surrounds it.
    UserDefined,
    /// Fills the table up to a round size.
    Unused,
    /// One byte, spelled `<0xAB>`.
    Byte,
}

impl Kind {
    fn of(number: i32) -> Kind {
        match number {
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            // 0 is "undefined" in the specification; the text is still text.
            _ => Kind::Normal,
        }
    }
}

/// Keys, beside those with a field of their own, whose ids end a generation.
const END_KEYS: [&str; 4] = ["eom", "fim_pad", "fim_rep", "fim_sep"];

impl Vocab {
    /// The vocabulary that a file's metadata holds.
    ///
    /// # Errors
    /// When model or tokens are missing, or a key has another type than the specification gives it.
    pub fn from_metadata(metadata: &Metadata) -> Result<Vocab, Error> {
        let ids = END_KEYS.map(|role| metadata.u32(&format!("tokenizer.ggml.{role}_token_id")));
        let ends = ids.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
        Ok(Vocab {
            model: metadata.required_str("tokenizer.ggml.model")?.to_owned(),
            pre: metadata.str("tokenizer.ggml.pre")?.unwrap_or_default().to_owned(),
            tokens: metadata.required_strings("tokenizer.ggml.tokens")?.to_vec(),
            merges: metadata.strings("tokenizer.ggml.merges")?.unwrap_or_default().to_vec(),
            scores: metadata.f32s("tokenizer.ggml.scores")?.unwrap_or_default().to_vec(),
            types: metadata.i32s("tokenizer.ggml.token_type")?.unwrap_or_default(),
            bos: metadata.u32("tokenizer.ggml.bos_token_id")?,
            eos: metadata.u32("tokenizer.ggml.eos_token_id")?,
            eot: metadata.u32("tokenizer.ggml.eot_token_id")?,
            ends,
            add_bos: metadata.bool("tokenizer.ggml.add_bos_token")?,
            add_eos: metadata.bool("tokenizer.ggml.add_eos_token")?,
            add_space_prefix: metadata.bool("tokenizer.ggml.add_space_prefix")?,
        })
    }

    /// The kinds by id, after checking that counts and ids fit together.
    pub(crate) fn kinds(&self) -> Result<Vec<Kind>, Error> {
        let tokens = self.tokens.len();
        if tokens == 0 {
            return Err(Error::NoTokens);
        }
        if tokens > MAX_ENTRIES || self.merges.len() > MAX_ENTRIES {
            return Err(Error::TooLarge { tokens, merges: self.merges.len(), limit: MAX_ENTRIES });
        }
        if !self.types.is_empty() && self.types.len() != tokens {
            return Err(Error::TypeCount { types: self.types.len(), tokens });
        }
        let named = [("bos", self.bos), ("eos", self.eos), ("eot", self.eot)];
        let ends = self.ends.iter().map(|&id| ("end", Some(id)));
        for (role, id) in named.into_iter().chain(ends) {
            if let Some(id) = id.filter(|&id| id as usize >= tokens) {
                return Err(Error::IdOutOfRange { role, id, tokens });
            }
        }
        let mut kinds: Vec<Kind> = self.types.iter().map(|&number| Kind::of(number)).collect();
        kinds.resize(tokens, Kind::Normal);
        Ok(kinds)
    }
}
