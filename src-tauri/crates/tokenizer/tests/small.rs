//! Ids against Hugging Face's tokenizers, on a small vocabulary of our own; `fixtures/record.py` says how it was made.

use std::fs;
use std::path::Path;

use cairn_tokenizer::{Special, Tokenizer, Vocab};
use serde_json::Value;

fn texts(value: &Value) -> Vec<String> {
    value.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

/// Holds one pre-tokenizer against the recorded ids.
fn check(small: &Value, pre: &str, wanted: &Value) {
    let tokens = texts(&small["tokens"]);
    let mut types = vec![1; tokens.len()];
    *types.last_mut().expect("there are tokens") = 4;
    let merges = texts(&small["merges"]);
    let vocab = Vocab { model: "gpt2".to_owned(), pre: pre.to_owned(), tokens, merges, types, ..Vocab::default() };
    let tokenizer = Tokenizer::new(vocab).expect("the small vocabulary is sound");
    let inputs = texts(&small["texts"]);
    assert_eq!(wanted.as_array().map(Vec::len), Some(inputs.len()), "{pre}: ids for each text");
    for (text, wanted) in inputs.iter().zip(wanted.as_array().expect("a list")) {
        let got = tokenizer.encode(text, Special::default());
        assert_eq!(serde_json::json!(got), *wanted, "{pre} on {text:?}");
        assert_eq!(tokenizer.decode(&got), *text, "{pre}: decoding undoes encoding");
        // A long text goes through the table of recent words, which must not change anything.
        let long = format!("{text}<|mark|>").repeat(100);
        let once = tokenizer.encode(&format!("{text}<|mark|>"), Special::default());
        assert_eq!(tokenizer.encode(&long, Special::default()), once.repeat(100), "{pre} on {text:?} a hundred times");
    }
}

#[test]
fn ids_of_a_small_vocabulary() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/small.json");
    let small: Value =
        serde_json::from_str(&fs::read_to_string(path).expect("the fixture is there")).expect("it is JSON");
    let ids = small["ids"].as_object().expect("ids by pre-tokenizer");
    assert!(ids.len() >= 9, "all recorded pre-tokenizers are checked");
    for (pre, wanted) in ids {
        check(&small, pre, wanted);
    }
}
