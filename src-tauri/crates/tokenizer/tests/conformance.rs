//! Ids against llama.cpp's, for every byte-pair vocabulary among the conformance data, in llama.cpp's own test format: inputs
//! each followed by a marker line in `.inp`, one line of ids for each in `.out`.
//!
//! The data belongs to its publishers and is not part of this repository. It is looked for in `CAIRN_CONFORMANCE`, else in
//! `shared/conformance` of a folder above; where there is none, this test says so and checks nothing.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_gguf::Gguf;
use cairn_tokenizer::{Special, Tokenizer, Vocab};

const MARKER: &str = "\n__ggml_vocab_test__\n";

/// The conformance data, if this machine has it.
#[expect(clippy::disallowed_methods, reason = "the place of data outside the repository is given by the environment")]
fn conformance() -> Option<PathBuf> {
    let named = std::env::var_os("CAIRN_CONFORMANCE").map(PathBuf::from);
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared/conformance"));
    let found = named.into_iter().chain(above).find(|folder| folder.is_dir());
    if found.is_none() {
        eprintln!("SKIPPED: no conformance data (set CAIRN_CONFORMANCE, or put it at ../shared/conformance)");
    }
    found
}

/// Files in `folder` whose names end with `suffix`, in order.
fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.to_string_lossy().ends_with(suffix)).collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Holds a tokenizer against inputs and ids, and its decoder against the inputs.
fn check(name: &str, tokenizer: &Tokenizer, inputs: &str, ids: &str) {
    let wanted: Vec<Vec<u32>> = ids
        .lines()
        .map(|line| line.split_whitespace().map(|id| id.parse().expect("ids are numbers")).collect())
        .collect();
    let inputs: Vec<&str> = inputs.strip_suffix(MARKER).unwrap_or(inputs).split(MARKER).collect();
    assert_eq!(inputs.len(), wanted.len(), "{name}: an input for each line of ids");
    let mut equal = 0;
    for (input, wanted) in inputs.iter().zip(&wanted) {
        let got = tokenizer.encode(input, Special { add: false, parse: false });
        if got == *wanted {
            equal += 1;
        } else {
            eprintln!("{name}: {input:?}\n  gives  {got:?}\n  wanted {wanted:?}");
        }
        assert_eq!(tokenizer.decode(&got), **input, "{name}: decoding undoes encoding");
    }
    eprintln!("{name}: {equal} of {} equal", wanted.len());
    assert_eq!(equal, wanted.len(), "{name}: some ids differ");
}

#[test]
fn vocabularies_in_gguf() {
    let Some(folder) = conformance() else { return };
    let mut checked = 0;
    for path in files(&folder.join("vocab"), ".gguf") {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let file = Gguf::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let vocab = Vocab::from_metadata(file.metadata()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let beside = |suffix: &str| path.with_file_name(format!("{name}.{suffix}"));
        if vocab.model != "gpt2" || !beside("inp").is_file() {
            continue;
        }
        let tokenizer = Tokenizer::new(vocab).unwrap_or_else(|error| panic!("{name}: {error}"));
        check(&name, &tokenizer, &read(&beside("inp")), &read(&beside("out")));
        checked += 1;
    }
    assert!(checked > 0, "the data is there, but holds no byte-pair vocabulary");
}

#[test]
fn llama_3_from_its_published_files() {
    let Some(folder) = conformance().map(|folder| folder.join("llama3")).filter(|folder| folder.is_dir()) else {
        return;
    };
    let ids: std::collections::HashMap<String, usize> =
        serde_json::from_str(&read(&folder.join("encoder.json"))).expect("encoder.json maps tokens to ids");
    let mut tokens = vec![String::new(); ids.values().max().map_or(0, |last| last + 1)];
    for (token, id) in ids {
        tokens[id] = token;
    }
    let merges = read(&folder.join("vocab.bpe")).lines().filter(|line| line.contains(' ')).map(str::to_owned).collect();
    let vocab = Vocab { model: "gpt2".to_owned(), pre: "llama-bpe".to_owned(), tokens, merges, ..Vocab::default() };
    let tokenizer = Tokenizer::new(vocab).expect("Llama 3's vocabulary is sound");
    check("llama3", &tokenizer, &read(&folder.join("llama-bpe.inp")), &read(&folder.join("llama-bpe.out")));
}
