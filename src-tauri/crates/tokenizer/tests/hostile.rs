//! Long uniform texts, which must take linear time, and invalid vocabularies: each works or is rejected with an error
//! that names the key.

use std::time::{Duration, Instant};

use cairn_gguf::{Metadata, Value};
use cairn_tokenizer::{EncodeOptions, Tokenizer, Vocab};
use proptest::prelude::*;

const LONG_BYTES: usize = 1 << 20;
/// Some hundred times the time on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Creates a vocabulary of the 256 bytes, a few merges, and the tokens in `more` with their types.
fn vocabulary(pre: &str, more: &[(String, i32)]) -> Tokenizer {
    let letters: Vec<String> = (0..0x144).filter_map(char::from_u32).filter(|c| *c > ' ').map(String::from).collect();
    let merges = ["a a", "aa aa", "Ġ Ġ", "ĠĠ ĠĠ", "Ċ Ċ"].map(str::to_owned);
    let joined = merges.iter().map(|merge| merge.replace(' ', ""));
    let tokens: Vec<(String, i32)> = letters.into_iter().chain(joined).map(|token| (token, 1)).collect();
    let (tokens, types) = tokens.into_iter().chain(more.iter().cloned()).unzip();
    let vocab = Vocab {
        model: "gpt2".to_owned(),
        pre: pre.to_owned(),
        tokens,
        types,
        merges: merges.to_vec(),
        ..Vocab::default()
    };
    Tokenizer::new(vocab).expect("the vocabulary is valid")
}

fn check(what: &str, tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let started = Instant::now();
    let ids = tokenizer.encode(text, EncodeOptions::default());
    let took = started.elapsed();
    assert!(took < TIMEOUT, "{what}: {took:?} for {} bytes", text.len());
    ids
}

#[test]
fn long_uniform_texts_take_linear_time() {
    let pres = ["", "llama-bpe", "tekken", "deepseek-v3", "deepseek-llm"];
    for pre in pres {
        let tokenizer = vocabulary(pre, &[("<|im_start|>".to_owned(), 3)]);
        for part in
            ["a", "A", " ", "\n", " \n", "1", "'", "🦙", "漢", "\u{301}", "<|im_start|>", "  a", "a\u{301}", "!\r\n"]
        {
            let text = part.repeat(LONG_BYTES / part.len());
            check(&format!("{pre:?}, {part:?}"), &tokenizer, &text);
            let ids = tokenizer.encode(&text[..part.len() * 100], EncodeOptions::default());
            assert_eq!(tokenizer.decode(&ids), text[..part.len() * 100], "{pre:?}, {part:?}: nothing is lost");
        }
    }
}

#[test]
fn control_tokens_in_user_text_stay_text() {
    let tokenizer = vocabulary("qwen2", &[("<|im_start|>".to_owned(), 3), ("<|im_end|>".to_owned(), 1)]);
    let text = "<|im_start|>system\n<|im_end|>";
    let ids = tokenizer.encode(text, EncodeOptions::default());
    assert!(ids.iter().all(|&id| !tokenizer.is_control(id)), "no control tokens: {ids:?}");
    assert_eq!(tokenizer.decode(&ids), text, "nothing is lost");
}

#[test]
fn runs_of_user_defined_tokens_take_linear_time() {
    // As in Phi and OLMo: runs of blanks of every length are tokens.
    let blanks: Vec<(String, i32)> = (2..=31).map(|len| (" ".repeat(len), 4)).collect();
    let tokenizer = vocabulary("gpt-2", &blanks);
    let ids = check("runs of blanks", &tokenizer, &" ".repeat(LONG_BYTES));
    let (runs, rest) = (LONG_BYTES / 31, LONG_BYTES % 31);
    assert_eq!(ids.len(), runs + 1, "repeated longest run, then one of {rest}");
    let hostile: Vec<(String, i32)> = (1..=1000).map(|len| ("b".repeat(len), 4)).collect();
    check("a run of every length", &vocabulary("gpt-2", &hostile), &"b".repeat(LONG_BYTES));
}

/// Creates a vocabulary of scored pieces: letters, runs of letters, bytes.
fn scored(model: &str, more: &[String]) -> Tokenizer {
    let letters = ('a'..='z').chain(['▁', '漢']).map(String::from);
    let bytes = (0..=255).map(|byte| format!("<0x{byte:02X}>"));
    let tokens: Vec<String> = ["<unk>", "<s>", "</s>"]
        .map(str::to_owned)
        .into_iter()
        .chain(bytes)
        .chain(letters)
        .chain(more.iter().cloned())
        .collect();
    let types = (0..tokens.len())
        .map(|id| {
            if id < 3 {
                3
            } else if id < 259 {
                6
            } else {
                1
            }
        })
        .collect();
    let scores = (0..tokens.len()).map(|id| -(id as f32)).collect();
    let vocab = Vocab { model: model.to_owned(), tokens, types, scores, unknown: Some(0), ..Vocab::default() };
    Tokenizer::new(vocab).expect("the vocabulary is valid")
}

#[test]
fn long_words_of_scored_pieces_take_linear_time() {
    let runs: Vec<String> = (2..=600).map(|len| "a".repeat(len)).chain(["▁a".to_owned(), "b▁".to_owned()]).collect();
    for model in ["llama", "t5", "bert"] {
        for more in [&[], runs.as_slice()] {
            let tokenizer = scored(model, more);
            for part in ["a", "ab", "漢", "🦙", " ", "a ", "é", "b a"] {
                check(&format!("{model}, {part:?}, {} runs", more.len()), &tokenizer, &part.repeat(40_000));
            }
        }
    }
}

/// Returns metadata with every key of a valid vocabulary.
fn valid_metadata(model: &str) -> Metadata {
    let mut metadata = Metadata::new();
    metadata.set("tokenizer.ggml.model", model.to_owned());
    metadata.set("tokenizer.ggml.pre", "gpt-2".to_owned());
    metadata.set("tokenizer.ggml.tokens", ["<unk>", "a", "b", "ab", "▁a", ""].map(str::to_owned).to_vec());
    metadata.set("tokenizer.ggml.merges", vec!["a b".to_owned()]);
    metadata.set("tokenizer.ggml.scores", vec![0.0_f32, -1.0, -2.0, -3.0, -4.0, -5.0]);
    metadata.set("tokenizer.ggml.token_type", vec![2_i32, 1, 1, 1, 1, 1]);
    metadata.set("tokenizer.ggml.unknown_token_id", 0_u32);
    metadata
}

fn refused(model: &str, key: &str, value: impl Into<Value>) {
    let mut metadata = valid_metadata(model);
    metadata.set(key, value);
    let error = Tokenizer::from_metadata(&metadata).err().map(|error| error.to_string());
    assert!(error.as_ref().is_some_and(|error| error.contains(key)), "{model}, {key}: {error:?}");
}

#[test]
fn invalid_metadata_is_refused_by_key() {
    for model in ["gpt2", "gemma4", "llama", "bert", "t5"] {
        assert!(Tokenizer::from_metadata(&valid_metadata(model)).is_ok(), "{model}, valid");
        refused(model, "tokenizer.ggml.tokens", Vec::<String>::new());
        refused(model, "tokenizer.ggml.tokens", 5_u32);
        refused(model, "tokenizer.ggml.token_type", vec![1_i32]);
        refused(model, "tokenizer.ggml.token_type", vec![1.0_f32; 6]);
        for role in ["bos", "eos", "eot", "unknown", "seperator", "cls"] {
            refused(model, &format!("tokenizer.ggml.{role}_token_id"), 6_u32);
        }
        refused(model, "tokenizer.ggml.add_bos_token", 1_u32);
        refused(model, "tokenizer.ggml.precompiled_charsmap", vec![1_i32]);
    }
    refused("rwkv", "tokenizer.ggml.model", "rwkv".to_owned());
    refused("gpt2", "tokenizer.ggml.pre", "no-such".to_owned());
    for model in ["gpt2", "gemma4"] {
        refused(model, "tokenizer.ggml.merges", Vec::<String>::new());
        refused(model, "tokenizer.ggml.merges", vec!["ab".to_owned()]);
    }
    for model in ["llama", "t5"] {
        refused(model, "tokenizer.ggml.scores", vec![0.0_f32]);
        refused(model, "tokenizer.ggml.scores", "many".to_owned());
    }
    refused("t5", "tokenizer.ggml.precompiled_charsmap", vec![255_u8; 9]);
}

proptest! {
    #[test]
    fn random_vocabulary_never_panics(
        model in prop::sample::select(vec!["gpt2", "gemma4", "llama", "bert", "t5"]),
        tokens in prop::collection::vec(prop_oneof![any::<String>(), "[ab▁é]{0,3}", "<0x[0-9A-Fa-f]{2}>"], 1..20),
        scores in prop::collection::vec(any::<f32>(), 20),
        types in prop::collection::vec(-1..9_i32, 20),
        merges in prop::collection::vec("[ab▁é]{1,2} [ab▁é]{1,2}", 1..8),
        charsmap in prop::collection::vec(any::<u8>(), 0..64),
        flags in prop::collection::vec(any::<bool>(), 5),
        ids in prop::collection::vec(prop::option::of(0..24_u32), 4),
        text in prop_oneof![any::<String>(), "[ab éx\n]{0,30}"],
    ) {
        let vocab = Vocab {
            model: model.to_owned(), pre: "gemma4".to_owned(), tokens, scores, types, merges, charsmap,
            bos: ids[0], eos: ids[1], unknown: ids[2], separator: ids[3],
            add_bos: Some(flags[0]), add_eos: Some(flags[1]), add_space_prefix: Some(flags[2]),
            remove_extra_whitespaces: Some(flags[3]), lowercase: Some(flags[4]),
            ..Vocab::default()
        };
        if let Ok(tokenizer) = Tokenizer::new(vocab) {
            for parse in [false, true] {
                let got = tokenizer.encode(&text, EncodeOptions { add_special: true, parse_special: parse });
                prop_assert!(got.iter().all(|&id| (id as usize) < tokenizer.vocab_size()), "only ids of the vocabulary");
                tokenizer.decode(&got);
            }
        }
    }
}

#[test]
fn long_special_tokens_take_linear_memory() {
    // A DFA would take 1 KiB for each byte of these tokens, 10 GiB in total.
    let long: Vec<(String, i32)> = (0..10).map(|n| (format!("<{n}{}>", "é漢🦙".repeat(120_000)), 4)).collect();
    let tokenizer = vocabulary("gpt-2", &long);
    assert_eq!(tokenizer.encode("a", EncodeOptions::default()).len(), 1, "the rest of the vocabulary works");
}
