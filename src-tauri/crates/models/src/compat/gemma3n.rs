//! Gemma 3n: embeddings of parts of images and sounds, for which the table of layer inputs has no rows, another name of the tokenizer, and
//! other types of its tokens.

use cairn_gguf::{Array, Value};

use super::layout::{Layout, Marker};
use super::step::{Constant, Head, Step};
use crate::error::LoadError;

const EMBEDDING: &str = "token_embd.weight";
const LAYER_INPUTS: &str = "per_layer_token_embd.weight";

pub(super) const GEMMA3N: Layout = Layout {
    model: "Gemma 3n",
    architectures: &["gemma3n"],
    markers: &[Marker::OtherRows(EMBEDDING, LAYER_INPUTS)],
    steps: &[
        Step::Set("tokenizer.ggml.model", Constant::Str("llama")),
        Step::ShareRows(EMBEDDING, LAYER_INPUTS),
        Step::TruncateVocabulary,
        Step::Run(set_token_types),
        Step::Run(end_turns),
    ],
    tower: &[],
};

/// Marks tokens of bytes, and unused ones as normal text.
fn set_token_types(head: &mut Head<'_>) -> Result<(), LoadError> {
    const NORMAL: i32 = 1;
    const BYTE: i32 = 6;
    let Some(Value::Array(Array::String(texts))) = head.metadata.get("tokenizer.ggml.tokens") else { return Ok(()) };
    let is_byte = |text: &str| text.len() == 6 && text.starts_with("<0x") && text.ends_with('>');
    let new_type = |text: &str| match text {
        text if is_byte(text) => Some(BYTE),
        text => text.starts_with("<unused").then_some(NORMAL),
    };
    let types: Vec<Option<i32>> = texts.iter().map(new_type).collect();
    if let Some(Value::Array(Array::I32(old))) = head.metadata.get_mut("tokenizer.ggml.token_type") {
        old.iter_mut().zip(types).for_each(|(old, new)| *old = new.unwrap_or(*old));
    }
    Ok(())
}

/// Adds the end of a turn to the tokens at which answers end.
fn end_turns(head: &mut Head<'_>) -> Result<(), LoadError> {
    const KEY: &str = "tokenizer.ggml.eos_token_ids";
    const END_OF_TEXT: i32 = 1;
    const END_OF_TURN: i32 = 106;
    let mut ids = head.i32s(KEY)?.unwrap_or_else(|| vec![END_OF_TEXT]);
    if !ids.contains(&END_OF_TURN) {
        ids.push(END_OF_TURN);
    }
    head.set(KEY, ids);
    Ok(())
}
