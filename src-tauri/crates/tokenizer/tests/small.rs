//! Compares ids with those of Hugging Face's tokenizers on a small vocabulary, recorded by `fixtures/record.py`.

use std::fs;
use std::path::Path;

use cairn_tokenizer::{EncodeOptions, Tokenizer, Vocab};
use serde_json::Value;

fn texts(value: &Value) -> Vec<String> {
    value.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

/// Compares the ids of one pre-tokenizer with the recorded ids.
fn check(small: &Value, pre: &str, wanted: &Value) {
    let tokens = texts(&small["tokens"]);
    let mut types = vec![1; tokens.len()];
    *types.last_mut().expect("there are tokens") = 4;
    let merges = texts(&small["merges"]);
    let vocab = Vocab { model: "gpt2".to_owned(), pre: pre.to_owned(), tokens, merges, types, ..Vocab::default() };
    let tokenizer = Tokenizer::new(vocab).expect("the small vocabulary is valid");
    let inputs = texts(&small["texts"]);
    assert_eq!(wanted.as_array().map(Vec::len), Some(inputs.len()), "{pre}: ids for each text");
    for (text, wanted) in inputs.iter().zip(wanted.as_array().expect("a list")) {
        let got = tokenizer.encode(text, EncodeOptions::default());
        assert_eq!(serde_json::json!(got), *wanted, "{pre} on {text:?}");
        assert_eq!(tokenizer.decode(&got), *text, "{pre}: decoding inverts encoding");
        // A long text uses the cache of recent words, which must not change the ids.
        let long = format!("{text}<|mark|>").repeat(100);
        let once = tokenizer.encode(&format!("{text}<|mark|>"), EncodeOptions::default());
        assert_eq!(
            tokenizer.encode(&long, EncodeOptions::default()),
            once.repeat(100),
            "{pre} on {text:?} a hundred times"
        );
    }
}

#[test]
fn small_vocabulary_matches_recorded_ids() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/small.json");
    let small: Value =
        serde_json::from_str(&fs::read_to_string(path).expect("the fixture is there")).expect("it is JSON");
    let ids = small["ids"].as_object().expect("ids by pre-tokenizer");
    assert!(ids.len() >= 9, "all recorded pre-tokenizers are checked");
    for (pre, wanted) in ids {
        check(&small, pre, wanted);
    }
}
