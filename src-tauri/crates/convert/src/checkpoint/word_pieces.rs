//! Conversion of WordPiece vocabularies: BERT marks the continuation of a word with `##`, llama.cpp the beginning with
//! U+2581.

use cairn_gguf::Metadata;

use super::config::{CONFIG, MAX_WIDTH};
use super::description::{Description, TOKENIZER};
use super::error::{ConvertError, invalid};
use super::normalizer::{self, Words};
use super::sentence_piece::NORMAL;
use super::tokenizer::{BLANK, TokenizerConfig, TokenizerFile};
use super::vocabulary::{self, CONTROL, UNUSED};

/// The special tokens of BERT, and their roles in GGUF. llama.cpp begins a text with the role `bos`, 101 by default.
const SPECIAL_TOKENS: [(&str, &str); 6] = [
    ("[PAD]", "padding"),
    ("[UNK]", "unknown"),
    ("[CLS]", "cls"),
    ("[CLS]", "bos"),
    ("[SEP]", "seperator"),
    ("[MASK]", "mask"),
];

/// Adds the vocabulary of a checkpoint.
pub(super) fn add(description: &Description<'_>, metadata: &mut Metadata) -> Result<(), ConvertError> {
    let (tokens, words) = match description.tokenizer()? {
        Some(tokenizer) => (tokens(&tokenizer)?, normalizer::of_words(&tokenizer)?),
        None => {
            let tokens = description.vocabulary()?.ok_or(ConvertError::Missing { name: TOKENIZER })?;
            let TokenizerConfig { do_lower_case: lowercase, strip_accents, .. } = description.tokenizer_config()?;
            (tokens, Words { lowercase, strip_accents })
        }
    };
    let count = vocabulary::count(description, tokens.len())?;
    if count < tokens.len() {
        let reason = format!("vocab_size is {count}, and the vocabulary has {} tokens", tokens.len());
        return Err(invalid(CONFIG, reason));
    }
    let is_special = |token: &str| SPECIAL_TOKENS.iter().any(|(name, _)| *name == token);
    let kinds = tokens.iter().map(|token| if is_special(token) { CONTROL } else { NORMAL });
    let kinds: Vec<i32> = kinds.chain(std::iter::repeat(UNUSED)).take(count).collect();
    // Rows of the embedding table without a token.
    let padding = (tokens.len()..count).map(|id| format!("{BLANK}[PAD{id}]"));
    let converted = tokens.iter().map(|token| match token.strip_prefix("##").filter(|rest| !rest.is_empty()) {
        Some(rest) => rest.to_owned(),
        None if is_special(token) => token.clone(),
        None => format!("{BLANK}{token}"),
    });
    metadata.set("tokenizer.ggml.model", "bert");
    metadata.set("tokenizer.ggml.pre", "default");
    metadata.set("tokenizer.ggml.tokens", converted.chain(padding).collect::<Vec<String>>());
    metadata.set("tokenizer.ggml.token_type", kinds);
    metadata.set("tokenizer.ggml.token_type_count", description.config.count("type_vocab_size", MAX_WIDTH)?);
    for (name, role) in SPECIAL_TOKENS {
        if let Some(id) = tokens.iter().position(|token| token == name) {
            metadata.set(format!("tokenizer.ggml.{role}_token_id"), id as u32);
        }
    }
    for (name, flag) in [("lowercase", words.lowercase), ("strip_accents", words.strip_accents)] {
        if let Some(flag) = flag {
            metadata.set(format!("tokenizer.ggml.normalizer.{name}"), flag);
        }
    }
    Ok(())
}

/// Returns the tokens of a `tokenizer.json` by id.
fn tokens(tokenizer: &TokenizerFile) -> Result<Vec<String>, ConvertError> {
    let model = &tokenizer.model;
    if let Some(kind) = model.kind.as_deref().filter(|kind| *kind != "WordPiece") {
        return Err(invalid(TOKENIZER, format!("the model is {kind:?}, not WordPiece")));
    }
    if model.vocab.ids.is_empty() {
        return Err(invalid(TOKENIZER, "it has no vocabulary"));
    }
    let added = tokenizer.added_tokens.0.iter().map(|token| (token.id, token.content.as_str()));
    let mut by_id: Vec<(u64, &str)> =
        model.vocab.ids.iter().map(|(token, id)| (*id, token.as_str())).chain(added).collect();
    by_id.sort_unstable();
    by_id.dedup();
    // Ids without gaps: otherwise the rows of the embedding table would be those of other tokens.
    if by_id.iter().zip(0..).any(|((id, _), position)| *id != position) {
        return Err(invalid(TOKENIZER, format!("the ids of its {} tokens are not 0 and up", by_id.len())));
    }
    Ok(by_id.into_iter().map(|(_, token)| token.to_owned()).collect())
}
