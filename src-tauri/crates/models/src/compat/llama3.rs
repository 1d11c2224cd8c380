//! Llama 3: early files name no pre-tokenizer, and the end of a text instead of the end of a turn as their end token.

use cairn_gguf::Metadata;

use super::layout::{Layout, Marker};
use super::step::{Constant, Head, PRE_TOKENIZER, Step, has_default_pre_tokenizer};
use crate::error::LoadError;

pub(super) const LLAMA3: Layout = Layout {
    model: "Llama 3",
    architectures: &["llama"],
    markers: &[Marker::Check(is_early_file)],
    steps: &[Step::Set(PRE_TOKENIZER, Constant::Str("llama-bpe")), Step::Run(end_turns)],
    tower: &[],
};

/// `<|end_of_text|>`.
const END_OF_TEXT: u32 = 128_001;
/// `<|start_header_id|>`.
const HEADER: (usize, &str) = (128_006, "<|start_header_id|>");
/// `<|eot_id|>`.
const END_OF_TURN: (usize, &str) = (128_009, "<|eot_id|>");

/// Returns whether a file has the vocabulary of Llama 3 with one of the faults.
fn is_early_file(metadata: &Metadata) -> bool {
    let Ok(Some(tokens)) = metadata.strings("tokenizer.ggml.tokens") else { return false };
    let has = |(id, text): (usize, &str)| tokens.get(id) == Some(text);
    let template = metadata.str("tokenizer.chat_template").ok().flatten().unwrap_or_default();
    let ends_text = metadata.u32("tokenizer.ggml.eos_token_id") == Ok(Some(END_OF_TEXT));
    has(END_OF_TURN)
        && (has(HEADER) || template.contains(HEADER.1))
        && (has_default_pre_tokenizer(metadata) || ends_text)
}

fn end_turns(head: &mut Head<'_>) -> Result<(), LoadError> {
    let id = END_OF_TURN.0 as u32;
    head.set("tokenizer.ggml.eos_token_id", id);
    head.set("tokenizer.ggml.eot_token_id", id);
    Ok(())
}
