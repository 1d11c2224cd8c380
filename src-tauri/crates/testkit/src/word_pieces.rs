//! A small WordPiece vocabulary in llama.cpp's form: the special tokens of BERT, printable ASCII without capital letters
//! as the beginning and the continuation of a word, common words, padding.

use cairn_gguf::Writer;

use crate::vocabulary::{CONTROL, NORMAL, WORDS};

/// The special tokens, in the order of their ids.
pub(crate) const SPECIAL_TOKENS: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// Returns `size` tokens.
///
/// # Panics
/// When `size` is too small for characters and words.
pub(crate) fn tokens(size: u64) -> Vec<String> {
    let characters = || (0x21..0x7f).map(char::from).filter(|letter| !letter.is_ascii_uppercase());
    let mut tokens: Vec<String> = SPECIAL_TOKENS.map(str::to_owned).to_vec();
    tokens.extend(characters().map(|letter| format!("\u{2581}{letter}")));
    tokens.extend(characters().map(String::from));
    let mut words: Vec<String> =
        WORDS.split_whitespace().filter(|word| word.len() > 1).map(|word| format!("\u{2581}{word}")).collect();
    words.sort_unstable();
    words.dedup();
    tokens.extend(words);
    let count = tokens.len() as u64;
    assert!(count <= size, "a vocabulary of {size} tokens is smaller than the minimum of {count}");
    tokens.extend((count..size).map(|id| format!("[unused{id}]")));
    tokens
}

/// Writes the keys of a vocabulary of `size` tokens.
///
/// # Panics
/// When `size` is too small for characters and words.
pub(crate) fn describe(size: u64, writer: &mut Writer<'_>) {
    let tokens = tokens(size);
    let kinds = (0..tokens.len()).map(|id| if id < SPECIAL_TOKENS.len() { CONTROL } else { NORMAL });
    writer.set("tokenizer.ggml.model", "bert");
    writer.set("tokenizer.ggml.token_type", kinds.collect::<Vec<i32>>());
    writer.set("tokenizer.ggml.tokens", tokens);
    writer.set("tokenizer.ggml.token_type_count", 2u32);
    for (role, id) in [("padding", 0u32), ("unknown", 1), ("cls", 2), ("bos", 2), ("seperator", 3), ("mask", 4)] {
        writer.set(format!("tokenizer.ggml.{role}_token_id"), id);
    }
}
