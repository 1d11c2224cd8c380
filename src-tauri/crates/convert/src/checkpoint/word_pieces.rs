//! Conversion of WordPiece vocabularies: BERT marks the continuation of a word with `##`, llama.cpp the beginning with
//! U+2581.

use cairn_gguf::Metadata;
use serde_json::Value;

use super::description::{Description, TOKENIZER, invalid};
use super::error::ConvertError;

/// Larger than any vocabulary.
const MAX_TOKENS: usize = 1 << 24;
/// Kinds of tokens, numbered as in llama.cpp.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;

/// The special tokens of BERT, and their roles in GGUF.
const SPECIAL_TOKENS: [(&str, &str); 5] =
    [("[PAD]", "padding"), ("[UNK]", "unknown"), ("[CLS]", "cls"), ("[SEP]", "seperator"), ("[MASK]", "mask")];

/// Adds the vocabulary of a checkpoint.
pub(super) fn add(description: &Description<'_>, metadata: &mut Metadata) -> Result<(), ConvertError> {
    let tokenizer = description.tokenizer()?;
    let tokens = match &tokenizer {
        Some(tokenizer) => tokens(tokenizer)?,
        None => description.vocabulary()?.ok_or(ConvertError::Missing { name: TOKENIZER })?,
    };
    let is_special = |token: &str| SPECIAL_TOKENS.iter().any(|(name, _)| *name == token);
    let kinds: Vec<i32> = tokens.iter().map(|token| if is_special(token) { CONTROL } else { NORMAL }).collect();
    let converted = tokens.iter().map(|token| match token.strip_prefix("##").filter(|rest| !rest.is_empty()) {
        Some(rest) => rest.to_owned(),
        None if is_special(token) => token.clone(),
        None => format!("\u{2581}{token}"),
    });
    metadata.set("tokenizer.ggml.model", "bert");
    metadata.set("tokenizer.ggml.pre", "default");
    metadata.set("tokenizer.ggml.tokens", converted.collect::<Vec<String>>());
    metadata.set("tokenizer.ggml.token_type", kinds);
    metadata.set("tokenizer.ggml.token_type_count", description.count("type_vocab_size")?);
    for (name, role) in SPECIAL_TOKENS {
        if let Some(id) = tokens.iter().position(|token| token == name) {
            metadata.set(format!("tokenizer.ggml.{role}_token_id"), id as u32);
        }
    }
    let normalizer = tokenizer.map(|tokenizer| tokenizer["normalizer"].clone()).unwrap_or_default();
    for (key, name) in [("lowercase", "lowercase"), ("strip_accents", "strip_accents")] {
        if let Some(flag) = normalizer[key].as_bool() {
            metadata.set(format!("tokenizer.ggml.normalizer.{name}"), flag);
        }
    }
    Ok(())
}

/// Returns the tokens of a `tokenizer.json` by id.
fn tokens(tokenizer: &Value) -> Result<Vec<String>, ConvertError> {
    let model = &tokenizer["model"];
    if model["type"] != "WordPiece" && !model["type"].is_null() {
        return Err(invalid(TOKENIZER, format!("the model is {}, not WordPiece", model["type"])));
    }
    let vocabulary = model["vocab"].as_object().ok_or_else(|| invalid(TOKENIZER, "it has no vocabulary"))?;
    let added = tokenizer["added_tokens"].as_array().into_iter().flatten();
    let added = added.filter_map(|token| Some((token["content"].as_str()?, &token["id"])));
    let mut by_id: Vec<(u64, &str)> = Vec::new();
    for (token, id) in vocabulary.iter().map(|(token, id)| (token.as_str(), id)).chain(added) {
        by_id.push((id.as_u64().ok_or_else(|| invalid(TOKENIZER, format!("a token has the id {id}")))?, token));
    }
    by_id.sort_unstable();
    by_id.dedup();
    // Ids without gaps: otherwise the rows of the embedding table would be those of other tokens.
    if by_id.len() > MAX_TOKENS || by_id.iter().zip(0..).any(|((id, _), position)| *id != position) {
        return Err(invalid(TOKENIZER, format!("the ids of its {} tokens are not 0 and up", by_id.len())));
    }
    Ok(by_id.into_iter().map(|(_, token)| token.to_owned()).collect())
}
