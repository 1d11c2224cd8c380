//! Vocabularies of decoders: byte-level BPE and SentencePiece's BPE, of `tokenizer.json`, `tokenizer.model` or
//! `tiktoken.model`.
//!
//! Every id up to the config's `vocab_size` gets a token, because each has a row of the embedding table.

use std::collections::{HashMap, HashSet};

use cairn_gguf::Metadata;

use super::description::{Description, PIECES, TOKENIZER};
use super::error::{ConvertError, invalid, unsupported};
use super::sentence_piece::{self, Kind, NORMAL, USER_DEFINED};
use super::tiktoken::{self, TIKTOKEN};
use super::tokenizer::{AddedToken, BLANK, MAX_TOKENS, TokenizerConfig, TokenizerFile, TokenizerModel};
use super::{normalizer, pre_tokenizer, special_tokens};

/// Kinds of tokens, numbered as in llama.cpp.
pub(super) const UNKNOWN: i32 = 2;
pub(super) const CONTROL: i32 = 3;
pub(super) const UNUSED: i32 = 5;
const BYTE: i32 = 6;
/// Scores of tokens that no merge makes, as in llama.cpp.
pub(super) const ADDED_SCORE: f32 = -1000.0;
const PADDING_SCORE: f32 = -10_000.0;
/// The architecture with a tokenizer of its own, which has merges, and the name of that tokenizer.
const GEMMA4: &str = "gemma4";

/// Tokens by id.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub(super) texts: Vec<String>,
    pub(super) kinds: Vec<i32>,
    pub(super) scores: Vec<f32>,
}

impl Tokens {
    /// Creates `count` unused tokens.
    pub(super) fn padding(count: usize) -> Self {
        let texts = (0..count).map(|id| format!("[PAD{id}]")).collect();
        Self { texts, kinds: vec![UNUSED; count], scores: vec![PADDING_SCORE; count] }
    }

    pub(super) fn set(&mut self, id: usize, text: &str, kind: i32, score: f32) {
        (self.texts[id], self.kinds[id], self.scores[id]) = (text.to_owned(), kind, score);
    }

    /// Sets a token that a text contains as it is.
    pub(super) fn set_added(&mut self, token: &AddedToken) {
        let id = token.id as usize;
        if token.special || looks_special(&token.content) {
            self.set(id, &token.content, CONTROL, ADDED_SCORE);
        } else {
            self.set(id, &token.content.replace(BLANK, " "), USER_DEFINED, ADDED_SCORE);
        }
    }
}

/// Adds the vocabulary of a checkpoint. `has_prefix` is the family's default of `add_space_prefix`, if it has one.
pub(super) fn add(
    description: &Description<'_>,
    has_prefix: Option<bool>,
    metadata: &mut Metadata,
) -> Result<(), ConvertError> {
    let config = description.tokenizer_config()?;
    let tokenizer = description.tokenizer()?;
    let pieces = description.pieces(PIECES)?;
    let prefix = has_prefix.or(config.add_prefix_space);
    let tokens = match (&pieces, &tokenizer) {
        (Some(pieces), _) => {
            set_blanks(prefix, metadata);
            of_pieces(description, &config, pieces)?
        }
        (None, Some(tokenizer)) if tokenizer.is_sentence_piece() => {
            // Without a prefix in the file, texts begin without a blank.
            set_blanks(prefix.or_else(|| (!prepends_blank(tokenizer)).then_some(false)), metadata);
            let tokens = of_merges(description, tokenizer)?;
            if metadata.str("general.architecture")? == Some(GEMMA4) {
                metadata.set("tokenizer.ggml.model", GEMMA4);
                set_merges(tokenizer, metadata);
            }
            tokens
        }
        (None, Some(tokenizer)) => {
            normalizer::check_bytes(tokenizer)?;
            let tokens = of_bytes(description, tokenizer)?;
            metadata.set("tokenizer.ggml.model", "gpt2");
            metadata.set("tokenizer.ggml.pre", pre_tokenizer::name(tokenizer)?);
            set_merges(tokenizer, metadata);
            tokens
        }
        (None, None) => match description.vocabulary_text(TIKTOKEN)? {
            Some(text) => of_ranks(description, &config, &text, metadata)?,
            None => return Err(ConvertError::Missing { name: TOKENIZER }),
        },
    };
    let Tokens { texts, kinds, scores } = tokens;
    let post_processor = tokenizer.as_ref().and_then(|tokenizer| tokenizer.post_processor.as_ref());
    special_tokens::add(description, &config, post_processor, &texts, metadata)?;
    metadata.set("tokenizer.ggml.tokens", texts);
    metadata.set("tokenizer.ggml.token_type", kinds);
    if metadata.str("tokenizer.ggml.model")? == Some("llama") {
        metadata.set("tokenizer.ggml.scores", scores);
    }
    Ok(())
}

fn set_blanks(prefix: Option<bool>, metadata: &mut Metadata) {
    metadata.set("tokenizer.ggml.model", "llama");
    metadata.set("tokenizer.ggml.pre", "default");
    if let Some(prefix) = prefix {
        metadata.set("tokenizer.ggml.add_space_prefix", prefix);
    }
}

/// Returns the text of a merge in GGUF, with a blank between its parts.
fn merge_text(parts: &[String; 2]) -> String {
    let [left, right] = parts.each_ref().map(|part| part.replace(' ', "\u{120}"));
    format!("{left} {right}")
}

/// Returns whether a token is one of structure that some published vocabularies mark as text.
fn looks_special(text: &str) -> bool {
    let around = |start: &str, end: &str| text.starts_with(start) && text.ends_with(end);
    matches!(text, "<pad>" | "<mask>" | "<2mass>" | "[@BOS@]")
        || around("<|", "|>")
        || around("<\u{ff5c}", "\u{ff5c}>")
        || around("<unused", ">")
}

/// Returns the number of tokens: the config's, else `found`.
pub(super) fn count(description: &Description<'_>, found: usize) -> Result<usize, ConvertError> {
    let declared = description.config.optional_count(&["vocab_size"], MAX_TOKENS as u32)?;
    Ok(declared.map_or(found, |count| count as usize))
}

/// Checks that the ids of a file fit the vocabulary.
fn check_ids<'a>(ids: impl IntoIterator<Item = &'a u64>, count: usize, file: &str) -> Result<(), ConvertError> {
    match ids.into_iter().max() {
        Some(&id) if id >= count as u64 => {
            Err(invalid(file, format!("a token has the id {id}, but there are {count}")))
        }
        _ => Ok(()),
    }
}

/// Returns all tokens of a `tokenizer.json`, padded, with kinds of normal and added ones.
fn of_bytes(description: &Description<'_>, tokenizer: &TokenizerFile) -> Result<Tokens, ConvertError> {
    let model = &tokenizer.model;
    if let Some(kind) = model.kind.as_deref().filter(|kind| *kind != "BPE") {
        return Err(invalid(TOKENIZER, format!("the model is {kind:?}, not BPE")));
    }
    if model.vocab.ids.is_empty() {
        return Err(invalid(TOKENIZER, "it has no vocabulary"));
    }
    check_pairs(model)?;
    // Tokens of images and sound of Gemma 3n have no inputs of layers.
    let is_cut = !description.config.value("altup_num_inputs").is_null();
    let limit = if is_cut { count(description, 0)? as u64 } else { u64::MAX };
    let added = || tokenizer.added_tokens.0.iter().filter(|token| token.id < limit);
    let ids = || model.vocab.ids.iter().map(|(_, id)| id).chain(added().map(|token| &token.id));
    let found = ids().max().map_or(0, |&id| id.saturating_add(1));
    if found > MAX_TOKENS as u64 {
        return Err(invalid(TOKENIZER, format!("a token has the id {}, and the limit is {MAX_TOKENS}", found - 1)));
    }
    let mut tokens = Tokens::padding(count(description, found as usize)?);
    check_ids(ids(), tokens.texts.len(), TOKENIZER)?;
    for (text, id) in &model.vocab.ids {
        if tokens.kinds[*id as usize] != UNUSED {
            return Err(invalid(TOKENIZER, format!("two tokens have the id {id}")));
        }
        tokens.set(*id as usize, text, NORMAL, ADDED_SCORE);
    }
    added().for_each(|token| tokens.set_added(token));
    Ok(tokens)
}

/// Checks that merges join tokens to tokens.
fn check_pairs(model: &TokenizerModel) -> Result<(), ConvertError> {
    for (key, text) in [
        ("continuing_subword_prefix", &model.continuing_subword_prefix),
        ("end_of_word_suffix", &model.end_of_word_suffix),
    ] {
        if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
            return Err(unsupported(format!("the {key} {text:?} of {TOKENIZER}")));
        }
    }
    if model.merges.0.is_empty() {
        return Err(invalid(TOKENIZER, "the BPE model has no merges, so its longer tokens cannot be reached"));
    }
    let tokens: HashSet<&str> = model.vocab.ids.iter().map(|(text, _)| text.as_str()).collect();
    let mut joined = String::new();
    for [left, right] in &model.merges.0 {
        joined.clear();
        joined.extend([left, right].map(String::as_str));
        if let Some(missing) = [left, right, &joined].into_iter().find(|text| !tokens.contains(text.as_str())) {
            let reason = format!("the merge of {left:?} and {right:?} needs the token {missing:?}, which is missing");
            return Err(invalid(TOKENIZER, reason));
        }
    }
    Ok(())
}

fn set_merges(tokenizer: &TokenizerFile, metadata: &mut Metadata) {
    let merges: Vec<String> = tokenizer.model.merges.0.iter().map(merge_text).collect();
    metadata.set("tokenizer.ggml.merges", merges);
}

/// Returns the tokens of SentencePiece's BPE in a `tokenizer.json`. A token's score is the rank of the first merge that makes
/// it, so that texts are merged in the order of the merges.
fn of_merges(description: &Description<'_>, tokenizer: &TokenizerFile) -> Result<Tokens, ConvertError> {
    normalizer::check_merges(tokenizer)?;
    pre_tokenizer::check_merges(tokenizer)?;
    let mut tokens = of_bytes(description, tokenizer)?;
    let merges = &tokenizer.model.merges.0;
    let mut ranks: HashMap<String, usize> = HashMap::with_capacity(merges.len());
    for (rank, [left, right]) in merges.iter().enumerate() {
        ranks.entry(format!("{left}{right}")).or_insert(rank);
    }
    for id in 0..tokens.texts.len() {
        let text = &tokens.texts[id];
        if tokens.kinds[id] == NORMAL {
            tokens.scores[id] = -(ranks.get(text).copied().unwrap_or(merges.len()) as f32);
            if is_byte(text) {
                tokens.kinds[id] = BYTE;
            }
        }
        if tokenizer.model.unk_token.as_ref() == Some(&tokens.texts[id]) {
            tokens.kinds[id] = UNKNOWN;
        }
    }
    Ok(tokens)
}

/// Returns the tokens of a `tiktoken.model`, and adds their merges. The file has no pattern of words: it is in the code of
/// the tokenizer, so only that of Kimi is supported.
fn of_ranks(
    description: &Description<'_>,
    config: &TokenizerConfig,
    text: &str,
    metadata: &mut Metadata,
) -> Result<Tokens, ConvertError> {
    const KIMI: &str = "TikTokenTokenizer";
    if config.tokenizer_class.as_deref() != Some(KIMI) {
        let class = config.tokenizer_class.as_deref().unwrap_or_default();
        return Err(unsupported(format!("{TIKTOKEN} with the tokenizer_class {class:?} instead of {KIMI:?}")));
    }
    let tiktoken::Vocabulary { tokens: texts, merges } =
        tiktoken::read(text).map_err(|reason| invalid(TIKTOKEN, reason))?;
    let mut tokens = Tokens::padding(count(description, texts.len())?);
    check_ids(&[texts.len() as u64 - 1], tokens.texts.len(), TIKTOKEN)?;
    for (id, text) in texts.iter().enumerate() {
        tokens.set(id, text, NORMAL, ADDED_SCORE);
    }
    let rows = tokens.texts.len() as u64;
    config.added_tokens_decoder.0.iter().filter(|token| token.id < rows).for_each(|token| tokens.set_added(token));
    metadata.set("tokenizer.ggml.model", "gpt2");
    metadata.set("tokenizer.ggml.pre", "kimi-k2");
    metadata.set("tokenizer.ggml.merges", merges);
    Ok(tokens)
}

/// Returns whether a token is named `<0xAB>`.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// Returns whether a tokenizer writes a blank before each text.
fn prepends_blank(tokenizer: &TokenizerFile) -> bool {
    let mut normalizes = tokenizer.normalizer.iter().flat_map(|normalizer| normalizer.steps());
    let mut splits = tokenizer.pre_tokenizer.iter().flat_map(|pre_tokenizer| pre_tokenizer.steps());
    normalizes.any(|step| step.kind.as_deref() == Some("Prepend")) || splits.any(|step| step.prepends_blank())
}

/// Returns the tokens of a `tokenizer.model`, and those that `added_tokens.json` and `tokenizer_config.json` add.
fn of_pieces(description: &Description<'_>, config: &TokenizerConfig, model: &[u8]) -> Result<Tokens, ConvertError> {
    const ADDED: &str = "added_tokens.json";
    let pieces = sentence_piece::read(model, Kind::BytePairs).map_err(|reason| invalid(PIECES, reason))?.pieces;
    let mut tokens = Tokens::padding(count(description, pieces.len())?);
    // Some published files have tokens without a row of the embedding table.
    for (id, piece) in pieces.iter().take(tokens.texts.len()).enumerate() {
        let kind = if piece.kind == USER_DEFINED { NORMAL } else { piece.kind };
        tokens.set(id, &piece.text, kind, piece.score);
    }
    let added: Option<HashMap<String, u64>> = description.parsed(ADDED)?;
    let count = tokens.texts.len() as u64;
    for (text, &id) in added.iter().flatten().filter(|&(_, &id)| id < count) {
        tokens.set(id as usize, text, USER_DEFINED, ADDED_SCORE);
    }
    config.added_tokens_decoder.0.iter().filter(|token| token.id < count).for_each(|token| tokens.set_added(token));
    Ok(tokens)
}
