//! The parts of `tokenizer.json` and `tokenizer_config.json` that a conversion needs. The parser skips all others without
//! memory for them, and lists have limits.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::limited::{self, Limit};

/// Larger than any vocabulary: the largest published ones have about half a million tokens.
pub(super) const MAX_TOKENS: usize = 1 << 20;
const TOKENS: Limit = Limit::new(MAX_TOKENS, "it", "tokens");
/// Larger than any list of merges, of which there are about as many as tokens.
const MERGES: Limit = Limit::new(1 << 21, "it", "merges");
/// Larger than any list of steps.
const STEPS: Limit = Limit::new(64, "it", "steps");

/// SentencePiece's character for a blank.
pub(super) const BLANK: char = '\u{2581}';

/// A `tokenizer.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenizerFile {
    pub(super) normalizer: Option<Normalizer>,
    pub(super) pre_tokenizer: Option<PreTokenizer>,
    pub(super) post_processor: Option<PostProcessor>,
    pub(super) added_tokens: AddedTokens,
    pub(super) model: TokenizerModel,
}

impl TokenizerFile {
    /// Returns whether the vocabulary is SentencePiece's: it has tokens of bytes, and texts are not split into bytes.
    pub(super) fn is_sentence_piece(&self) -> bool {
        let mut splits = self.pre_tokenizer.iter().flat_map(PreTokenizer::steps);
        self.model.byte_fallback == Some(true) && !splits.any(PreTokenizer::is_bytes)
    }
}

/// Changes of a text before it is split into words: one step, or a list of steps.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Normalizer {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) lowercase: Option<bool>,
    pub(super) strip_accents: Option<bool>,
    pub(super) clean_text: Option<bool>,
    pub(super) handle_chinese_chars: Option<bool>,
    pub(super) precompiled_charsmap: Option<String>,
    pub(super) pattern: Option<Pattern>,
    pub(super) content: Option<String>,
    pub(super) prepend: Option<String>,
    pub(super) normalizers: Option<Few<Normalizer>>,
}

impl Normalizer {
    pub(super) fn steps(&self) -> &[Self] {
        self.normalizers.as_ref().map_or(std::slice::from_ref(self), |steps| &steps.0)
    }
}

/// How a text is split into words: one step, or a list of steps.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PreTokenizer {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) pattern: Option<Pattern>,
    pub(super) behavior: Option<String>,
    pub(super) use_regex: Option<bool>,
    pub(super) individual_digits: Option<bool>,
    pub(super) prepend_scheme: Option<String>,
    pub(super) add_prefix_space: Option<bool>,
    pretokenizers: Option<Few<PreTokenizer>>,
}

impl PreTokenizer {
    pub(super) fn steps(&self) -> &[Self] {
        self.pretokenizers.as_ref().map_or(std::slice::from_ref(self), |steps| &steps.0)
    }

    /// Returns whether this step splits a text into bytes.
    fn is_bytes(&self) -> bool {
        self.kind.as_deref() == Some("ByteLevel")
    }

    /// Returns whether this step writes a blank before a text.
    pub(super) fn prepends_blank(&self) -> bool {
        self.kind.as_deref() == Some("Metaspace")
            && self.prepend_scheme.as_deref() != Some("never")
            && self.add_prefix_space != Some(false)
    }
}

/// What separates words.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pattern {
    #[serde(rename = "Regex")]
    pub(super) regex: Option<String>,
    #[serde(rename = "String")]
    pub(super) text: Option<String>,
}

/// Tokens that are added to a text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PostProcessor {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) processors: Option<Few<PostProcessorStep>>,
    pub(super) single: Option<Few<TemplatePart>>,
}

/// One step of a list of additions.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PostProcessorStep {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) single: Option<Few<TemplatePart>>,
}

/// A token or a text of a template.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TemplatePart {
    #[serde(rename = "SpecialToken")]
    pub(super) token: Option<TemplateToken>,
}

/// A token of a template.
#[derive(Debug, Deserialize)]
pub(super) struct TemplateToken {
    pub(super) id: String,
}

/// The model, which splits words into tokens.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenizerModel {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) vocab: Vocabulary,
    pub(super) merges: Merges,
    pub(super) byte_fallback: Option<bool>,
    pub(super) continuing_subword_prefix: Option<String>,
    pub(super) end_of_word_suffix: Option<String>,
    pub(super) ignore_merges: Option<bool>,
    pub(super) unk_token: Option<String>,
    pub(super) unk_id: Option<u64>,
}

/// The tokens of a model: a map to ids, or a list with scores by id.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    pub(super) ids: Vec<(String, u64)>,
    pub(super) scored: Vec<(String, f32)>,
}

/// Pairs of tokens that become one, best first.
#[derive(Debug, Default)]
pub(super) struct Merges(pub(super) Vec<[String; 2]>);

/// A token that a text contains as it is.
#[derive(Debug, Deserialize)]
pub(super) struct AddedToken {
    pub(super) content: String,
    pub(super) id: u64,
    #[serde(default)]
    pub(super) special: bool,
}

/// Tokens that a text contains as they are.
#[derive(Debug, Default)]
pub(super) struct AddedTokens(pub(super) Vec<AddedToken>);

/// A `tokenizer_config.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenizerConfig {
    pub(super) do_lower_case: Option<bool>,
    pub(super) strip_accents: Option<bool>,
    pub(super) add_prefix_space: Option<bool>,
    pub(super) add_bos_token: Option<bool>,
    pub(super) add_eos_token: Option<bool>,
    pub(super) bos_token: Option<TokenName>,
    pub(super) eos_token: Option<TokenName>,
    pub(super) unk_token: Option<TokenName>,
    pub(super) sep_token: Option<TokenName>,
    pub(super) pad_token: Option<TokenName>,
    pub(super) cls_token: Option<TokenName>,
    pub(super) mask_token: Option<TokenName>,
    pub(super) added_tokens_decoder: AddedTokensDecoder,
    pub(super) chat_template: Option<ChatTemplate>,
    pub(super) extra_ids: Option<u64>,
    pub(super) tokenizer_class: Option<String>,
}

/// A token's text, or an object with it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum TokenName {
    Text(String),
    Object { content: String },
    Other(IgnoredAny),
}

/// Added tokens by id.
#[derive(Debug, Default)]
pub(super) struct AddedTokensDecoder(pub(super) Vec<AddedToken>);

/// One chat template, or several with names.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum ChatTemplate {
    One(String),
    Several(Vec<NamedTemplate>),
}

/// A chat template for a purpose.
#[derive(Debug, Deserialize)]
pub(super) struct NamedTemplate {
    pub(super) name: String,
    pub(super) template: String,
}

impl TokenName {
    /// Returns the text. An empty one names no token.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            TokenName::Text(text) | TokenName::Object { content: text } => {
                Some(text.as_str()).filter(|text| !text.is_empty())
            }
            TokenName::Other(_) => None,
        }
    }
}

/// A short list.
#[derive(Debug)]
pub(super) struct Few<T>(pub(super) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        limited::list(deserializer, STEPS).map(Few)
    }
}

impl<'de> Deserialize<'de> for AddedTokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        limited::list(deserializer, TOKENS).map(AddedTokens)
    }
}

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let merges: Vec<Merge> = limited::list(deserializer, MERGES)?;
        Ok(Merges(merges.into_iter().map(|Merge(pair)| pair).collect()))
    }
}

/// A merge: two tokens, or their texts with a space between.
struct Merge([String; 2]);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pair;

        impl<'de> Visitor<'de> for Pair {
            type Value = Merge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a pair of tokens")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Merge, E> {
                let (left, right) =
                    text.split_once(' ').ok_or_else(|| E::custom(format!("the merge {text:?} has no space")))?;
                Ok(Merge([left.to_owned(), right.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Merge, A::Error> {
                let mut next = || list.next_element()?.ok_or_else(|| A::Error::custom("a merge needs two tokens"));
                let pair = [next()?, next()?];
                match list.next_element::<IgnoredAny>()? {
                    None => Ok(Merge(pair)),
                    Some(_) => Err(A::Error::custom("a merge has more than two tokens")),
                }
            }
        }

        deserializer.deserialize_any(Pair)
    }
}

impl<'de> Deserialize<'de> for Vocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tokens;

        impl<'de> Visitor<'de> for Tokens {
            type Value = Vocabulary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vocabulary, A::Error> {
                Ok(Vocabulary { ids: limited::entries(map, TOKENS)?, scored: Vec::new() })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vocabulary, A::Error> {
                let mut scored: Vec<(String, f32)> = Vec::new();
                while let Some(piece) = list.next_element::<(String, f32)>()? {
                    TOKENS.check(scored.len())?;
                    if !piece.1.is_finite() {
                        return Err(A::Error::custom(format!("the score of the token {:?} is {}", piece.0, piece.1)));
                    }
                    scored.push(piece);
                }
                Ok(Vocabulary { ids: Vec::new(), scored })
            }
        }

        deserializer.deserialize_any(Tokens)
    }
}

impl<'de> Deserialize<'de> for AddedTokensDecoder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Entry {
            content: String,
            #[serde(default)]
            special: bool,
        }

        let entries = limited::map(deserializer, TOKENS, "a map of added tokens")?;
        let token = |(id, Entry { content, special }): (String, Entry)| {
            let id = id.parse().map_err(|_| D::Error::custom(format!("{id:?} is not the id of a token")))?;
            Ok(AddedToken { content, id, special })
        };
        entries.into_iter().map(token).collect::<Result<_, D::Error>>().map(AddedTokensDecoder)
    }
}
