//! Vocabularies of tiktoken, as that of Kimi: the byte-level tokens by rank. Special tokens are in `tokenizer_config.json`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::{CheckpointSpec, added, names as common_names};
use crate::vocabulary::{SPECIAL_TOKENS, Vocabulary, alphabet_char};

pub(super) fn names(spec: &CheckpointSpec) -> Value {
    let first = Vocabulary::new(spec.model.vocab).first_special as usize;
    let mut config = common_names(SPECIAL_TOKENS[0], SPECIAL_TOKENS[2], spec);
    let special = (first..).zip(SPECIAL_TOKENS).map(|(id, text)| (id.to_string(), added(id, text)));
    config["added_tokens_decoder"] = special.collect::<Map<_, _>>().into();
    config["tokenizer_class"] = json!("TikTokenTokenizer");
    config["auto_map"] = json!({"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", null]});
    config
}

/// Returns the tokens before the special ones.
pub(super) fn ranks(spec: &CheckpointSpec) -> (String, Vec<u8>) {
    let Vocabulary { tokens, first_special, .. } = Vocabulary::new(spec.model.vocab);
    let byte = |letter: char| (0..=255u8).find(|&byte| alphabet_char(byte) == letter).expect("a byte of the alphabet");
    let line = |(rank, text): (usize, &String)| {
        let bytes: Vec<u8> = text.chars().map(byte).collect();
        format!("{} {rank}\n", BASE64_STANDARD.encode(bytes))
    };
    let lines: String = tokens[..first_special as usize].iter().enumerate().map(line).collect();
    ("tiktoken.model".to_owned(), lines.into_bytes())
}
