//! Rows of the pre-tokenizer table: each name compiles, splits without gaps, and handles long hostile runs.

use std::collections::HashSet;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

fn check(name: &str, text: &str, wanted: &[&str]) {
    let mut got = Vec::new();
    PreTokenizer::from_name(name).expect("the row exists").words(text, |range| got.push(&text[range]));
    assert_eq!(got, wanted, "{name:?} on {text:?}");
}

fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().flat_map(|row| row.names.iter().copied())
}

#[test]
fn each_name_is_in_one_row_and_compiles() {
    let mut seen = HashSet::new();
    for name in names() {
        assert!(seen.insert(name), "{name:?} is in two rows");
        assert!(PreTokenizer::from_name(name).is_ok(), "{name:?} does not compile");
    }
    assert!(PreTokenizer::from_name("no-such-row").is_err(), "an unknown name is an error");
}

#[test]
fn words_are_split_by_row() {
    let text = "I'll pay 12345 $!\n\n  ok";
    check("gpt-2", text, &["I", "'ll", " pay", " 12345", " $!", "\n\n ", " ok"]);
    check("llama-bpe", text, &["I", "'ll", " pay", " ", "123", "45", " $!\n\n", " ", " ok"]);
    check("qwen2", text, &["I", "'ll", " pay", " ", "1", "2", "3", "4", "5", " $!\n\n", " ", " ok"]);
    check("starcoder", text, &["I", "'ll", " pay", " ", "1", "2", "3", "4", "5", " $!", "\n\n ", " ok"]);
    check("falcon", text, &["I", "'", "ll", " pay", " ", "123", "45", " ", "$!", "\n\n ", " ok"]);
}

#[test]
fn long_runs_are_split_without_loss() {
    for name in names() {
        let pre = PreTokenizer::from_name(name).expect("the row exists");
        for unit in ["a", " ", "\n", "1", "!", "漢", "aB", " \u{301}"] {
            let text = unit.repeat(20_000);
            let mut at = 0;
            pre.words(&text, |range| {
                assert_eq!(range.start, at, "{name:?} on {unit:?} leaves a gap");
                at = range.end;
            });
            assert_eq!(at, text.len(), "{name:?} on {unit:?} loses the end");
        }
    }
}

/// All rows, compiled once because compiling takes longer than splitting.
static COMPILED: LazyLock<Vec<PreTokenizer>> =
    LazyLock::new(|| ROWS.iter().map(|row| PreTokenizer::from_name(row.names[0]).expect("the row exists")).collect());

proptest! {
    #[test]
    fn words_cover_random_text(text in any::<String>()) {
        for (row, pre) in ROWS.iter().zip(COMPILED.iter()) {
            let mut at = 0;
            pre.words(&text, |range| {
                assert_eq!(range.start, at, "{:?} leaves a gap", row.names);
                assert!(range.end > range.start, "{:?} gives an empty word", row.names);
                at = range.end;
            });
            assert_eq!(at, text.len(), "{:?} loses the end", row.names);
        }
    }
}
