//! The parts of `tokenizer.json` that a conversion needs. The parser skips all others without memory for them.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Larger than any vocabulary: the largest published ones have about half a million tokens.
pub(super) const MAX_TOKENS: usize = 1 << 20;

/// A `tokenizer.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenizerFile {
    pub(super) normalizer: Option<Normalizer>,
    pub(super) added_tokens: AddedTokens,
    pub(super) model: TokenizerModel,
}

/// Changes of a text before it is split into words.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Normalizer {
    pub(super) lowercase: Option<bool>,
    pub(super) strip_accents: Option<bool>,
}

/// The model, which splits words into tokens.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenizerModel {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) vocab: Vocabulary,
}

/// Tokens and their ids. Empty if the model has a list of tokens instead of a map.
#[derive(Debug, Default)]
pub(super) struct Vocabulary(pub(super) Vec<(String, u64)>);

/// Tokens that a text contains as they are, and their ids.
#[derive(Debug, Default)]
pub(super) struct AddedTokens(pub(super) Vec<(String, u64)>);

fn too_many<E: Error>() -> E {
    E::custom(format!("it has more than {MAX_TOKENS} tokens"))
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tokens;

        impl<'de> Visitor<'de> for Tokens {
            type Value = Vocabulary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocabulary, A::Error> {
                let mut tokens = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    if tokens.len() == MAX_TOKENS {
                        return Err(too_many());
                    }
                    tokens.push(entry);
                }
                Ok(Vocabulary(tokens))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Vocabulary::default())
            }
        }

        deserializer.deserialize_any(Tokens)
    }
}

impl<'de> Deserialize<'de> for AddedTokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct AddedToken {
            content: String,
            id: u64,
        }

        struct Tokens;

        impl<'de> Visitor<'de> for Tokens {
            type Value = AddedTokens;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of tokens")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<AddedTokens, A::Error> {
                let mut tokens = Vec::new();
                while let Some(AddedToken { content, id }) = list.next_element()? {
                    if tokens.len() == MAX_TOKENS {
                        return Err(too_many());
                    }
                    tokens.push((content, id));
                }
                Ok(AddedTokens(tokens))
            }
        }

        deserializer.deserialize_seq(Tokens)
    }
}
