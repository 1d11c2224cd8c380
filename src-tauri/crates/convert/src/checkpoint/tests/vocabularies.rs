//! Vocabularies of decoders: the same tokens, whatever files a checkpoint has.

use cairn_gguf::Gguf;
use cairn_testkit::Family;
use cairn_testkit::checkpoint::{CheckpointSpec, Vocabulary, checkpoint};
use cairn_testkit::families::{DEEPSEEK2, GEMMA3N};
use serde_json::{Value, json};

use super::decoders::{check, llama, open, spec};
use super::hostile::changed;
use super::{convert_to, refused};
use crate::FileType;

#[test]
fn byte_pairs_keep_their_merges_kinds_and_special_tokens() {
    let (made, converted) = check(&llama());
    let (expected, found) = (Gguf::parse(&made.model).unwrap(), Gguf::parse(&converted).unwrap());
    let keys = expected.metadata().iter().filter(|(key, _)| key.starts_with("tokenizer."));
    for (key, value) in keys {
        assert_eq!(found.metadata().get(key), Some(value), "{key}");
    }
    let number = |key: &str| found.metadata().f32(key).unwrap();
    assert_eq!((number("general.sampling.temp"), number("general.sampling.top_p")), (Some(0.5), Some(0.75)));
}

/// Returns the ids of a text by the vocabulary of a file.
pub(super) fn ids(file: &[u8], text: &str) -> Vec<u32> {
    let gguf = Gguf::parse(file).unwrap();
    let tokenizer = cairn_tokenizer::Tokenizer::from_metadata(gguf.metadata()).expect("a valid vocabulary");
    let options = cairn_tokenizer::EncodeOptions { add_special: true, parse_special: true };
    tokenizer.encode(text, options)
}

#[test]
fn pieces_and_merges_give_the_same_ids() {
    let of = |vocabulary| check(&CheckpointSpec { vocabulary, ..llama() }).1;
    let (pieces, merges) = (of(Vocabulary::Pieces), of(Vocabulary::Merges));
    for text in ["the river and the stone", "hello world", " two  blanks", "this is \u{fc}?"] {
        let ids = ids(&pieces, text);
        assert_eq!(ids, self::ids(&merges, text), "{text:?}");
        assert_eq!(ids[0], 1, "BOS");
    }
    let gguf = Gguf::parse(&pieces).unwrap();
    let kinds = gguf.metadata().i32s("tokenizer.ggml.token_type").unwrap().expect("kinds of tokens");
    assert_eq!(kinds[..4], [3, 3, 3, 6], "special tokens, then bytes");
    assert_eq!(kinds.last(), Some(&5), "rows without a piece have an unused token");
    assert_eq!(kinds.len(), 520, "a token for each row");
}

/// DeepSeek V2.
static V2: Family = Family { pre_tokenizer: "deepseek-llm", ..DEEPSEEK2 };

#[test]
fn pre_tokenizer_of_deepseek_v2_keeps_its_name() {
    let (_, converted) = check(&spec(&V2, "DeepseekV2ForCausalLM"));
    let gguf = Gguf::parse(&converted).unwrap();
    assert_eq!(gguf.metadata().str("tokenizer.ggml.pre"), Ok(Some("deepseek-llm")));
    let text = "The r\u{ed}ver, 123 \u{6cb3}\u{6d41}\nend ";
    assert!(!ids(&converted, text).is_empty(), "the engine has a pre-tokenizer of this name");
}

fn kimi() -> CheckpointSpec {
    CheckpointSpec { vocabulary: Vocabulary::Tiktoken, ..spec(&DEEPSEEK2, "DeepseekV3ForCausalLM") }
}

/// Returns the ids of a word as tiktoken computes them: of all adjacent parts, those that make the token of the lowest rank
/// are joined first.
fn ranked(word: &str, ranks: &[Vec<u8>]) -> Vec<u32> {
    let rank = |part: &[u8]| ranks.iter().position(|token| token == part);
    let mut parts: Vec<Vec<u8>> = word.bytes().map(|byte| vec![byte]).collect();
    loop {
        let joined = (1..parts.len()).filter_map(|at| Some((rank(&parts[at - 1..=at].concat())?, at)));
        let Some((best, at)) = joined.min() else { break };
        parts.splice(at - 1..=at, [ranks[best].clone()]);
    }
    parts.iter().map(|part| rank(part).expect("all bytes are tokens") as u32).collect()
}

#[test]
fn tiktoken_vocabulary_gives_the_ids_of_its_ranks() {
    let (made, converted) = check(&kimi());
    let gguf = Gguf::parse(&converted).unwrap();
    assert_eq!(gguf.metadata().str("tokenizer.ggml.pre"), Ok(Some("kimi-k2")));
    let (_, file) = made.files.iter().find(|(name, _)| name == "tiktoken.model").expect("the vocabulary");
    let ranks: Vec<Vec<u8>> = std::str::from_utf8(file)
        .unwrap()
        .lines()
        .map(|line| base64::Engine::decode(&base64::prelude::BASE64_STANDARD, line.split_once(' ').unwrap().0).unwrap())
        .collect();
    for words in [&["the", " river", " and", " the", " stones"][..], &["that", " questioning", " r\u{fc}", "!"]] {
        let expected: Vec<u32> = words.iter().flat_map(|word| ranked(word, &ranks)).collect();
        assert_eq!(ids(&converted, &words.concat()), expected, "{words:?}");
    }
    let first = ranks.len() as u32;
    assert_eq!(ids(&converted, "<|im_end|>"), [first + 2], "a special token");
    let number = |role: &str| gguf.metadata().u32(&format!("tokenizer.ggml.{role}_token_id")).unwrap();
    assert_eq!((number("bos"), number("eos")), (Some(first), Some(first + 2)));
    let kinds = gguf.metadata().i32s("tokenizer.ggml.token_type").unwrap().expect("kinds of tokens");
    assert_eq!(kinds[ranks.len() - 1..], [1, 3, 3, 3], "text, then special tokens");
}

#[test]
fn tiktoken_vocabularies_that_cannot_be_read_are_refused() {
    let with = |change: fn(&mut Value)| changed(checkpoint(&kimi()).files, "tokenizer_config.json", change);
    let class: fn(&mut Value) = |config| config["tokenizer_class"] = json!("HYTokenizer");
    refused(&with(class), "tiktoken.model with the tokenizer_class \"HYTokenizer\" instead of \"TikTokenTokenizer\"");
    let few = changed(checkpoint(&kimi()).files, "config.json", |config| config["vocab_size"] = json!(300));
    refused(&few, "tiktoken.model: a token has the id ");
    let mut files = checkpoint(&kimi()).files;
    let model = files.iter_mut().find(|(name, _)| name == "tiktoken.model").expect("a vocabulary");
    model.1 = b"YQ==".to_vec();
    refused(&open(&files), "tiktoken.model: token 1: it has no rank");
}

#[test]
fn added_tokens_without_inputs_of_layers_are_left_out() {
    let more: fn(&mut Value) = |file| {
        let token = json!({"id": 521, "content": "<image_soft_token>", "special": true});
        file["added_tokens"].as_array_mut().expect("a list").push(token);
    };
    let made = checkpoint(&spec(&GEMMA3N, "Gemma3nForConditionalGeneration")).files;
    let converted = convert_to(&changed(made, "tokenizer.json", more), FileType::F16).expect("a valid checkpoint");
    let gguf = Gguf::parse(&converted).unwrap();
    assert_eq!(gguf.metadata().required_strings("tokenizer.ggml.tokens").expect("texts of tokens").iter().count(), 520);
    assert_eq!(gguf.tensor("token_embd.weight").expect("the embeddings").dims, [64, 520], "a row for each token");
    let other = changed(checkpoint(&llama()).files, "tokenizer.json", more);
    refused(&other, "a token has the id 521, but there are 520");
}
