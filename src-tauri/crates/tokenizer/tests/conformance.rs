//! Compares ids with those of the publishers' tokenizers, for every vocabulary on this machine in llama.cpp's test
//! format: inputs, each followed by a marker line, in `.inp`, and one line of ids for each in `.out`. Prints a table:
//!
//! `cargo test -p cairn-tokenizer --test conformance -- --nocapture`
//!
//! The data is not part of this repository. The test looks in `CAIRN_CONFORMANCE`, else in `shared/conformance` of a
//! parent folder, and in the folder `CAIRN_LLAMA_CPP`, else in the source of llama.cpp that `cargo xtask bench`
//! unpacks. Missing data is skipped with a message.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use cairn_gguf::Gguf;
use cairn_tokenizer::{EncodeOptions, Tokenizer, Vocab};

const MARKER: &str = "\n__ggml_vocab_test__\n";

/// Returns the folder that the variable names, else the first existing one of `others`.
#[expect(clippy::disallowed_methods, reason = "the environment names the folder of data outside the repository")]
fn folder(variable: &str, others: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let found = named.into_iter().chain(others).find(|folder| folder.is_dir());
    if found.is_none() {
        eprintln!("SKIPPED: no data for {variable}");
    }
    found
}

fn conformance() -> Option<PathBuf> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared/conformance"));
    folder("CAIRN_CONFORMANCE", above)
}

/// Returns the folder of vocabularies in the source of llama.cpp, which `cargo xtask bench` puts into the build folder.
fn llama_cpp() -> Option<PathBuf> {
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().map(|target| target.join("llama.cpp"));
    let sources = build.and_then(|build| fs::read_dir(build).ok()).into_iter().flatten().flatten();
    folder("CAIRN_LLAMA_CPP", sources.map(|source| source.path().join("vendor/llama.cpp/models")))
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

/// A row of the table.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    equal: usize,
    different: usize,
    /// Why the vocabulary was rejected.
    refused: Option<String>,
}

/// Compares the ids of the inputs, and the decoded text if encoding is lossless.
fn check(name: &str, tokenizer: &Tokenizer, lossless: bool, inputs: &str, ids: &str) -> Counts {
    let ids = ids.lines().map(|line| line.split_whitespace().map(|id| id.parse().expect("ids are numbers")).collect());
    let wanted: Vec<Vec<u32>> = ids.collect();
    let inputs: Vec<&str> = inputs.strip_suffix(MARKER).unwrap_or(inputs).split(MARKER).collect();
    assert_eq!(inputs.len(), wanted.len(), "{name}: an input for each line of ids");
    let mut counts = Counts::default();
    for (input, wanted) in inputs.iter().zip(&wanted) {
        let got = tokenizer.encode(input, EncodeOptions { add_special: false, parse_special: false });
        if got == *wanted {
            counts.equal += 1;
        } else {
            counts.different += 1;
            println!("{name}: {input:?}\n  gives  {got:?}\n  wanted {wanted:?}");
        }
        assert!(!lossless || tokenizer.decode(&got) == **input, "{name}: decoding undoes encoding of {input:?}");
    }
    counts
}

/// Returns the row of a vocabulary in a GGUF file. Without recorded ids the counts are 0.
fn row(path: &Path) -> Counts {
    let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let file = Gguf::parse(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let read_vocab = Vocab::from_metadata(file.metadata());
    // WordPiece and Unigram normalise, so decoding does not restore the text.
    let lossless = read_vocab.as_ref().is_ok_and(|vocab| !matches!(vocab.model.as_str(), "bert" | "t5"));
    let beside = |suffix: &str| path.with_file_name(format!("{name}.{suffix}"));
    match read_vocab.and_then(Tokenizer::new) {
        Err(error) => Counts { refused: Some(error.to_string()), ..Counts::default() },
        Ok(_) if !beside("inp").is_file() => Counts::default(),
        Ok(tokenizer) => check(&name, &tokenizer, lossless, &read(&beside("inp")), &read(&beside("out"))),
    }
}

#[test]
fn gguf_vocabularies_match_recorded_ids() {
    let folders = [conformance().map(|folder| folder.join("vocab")), llama_cpp()];
    let mut wrong = Vec::new();
    println!("{:32} {:>6} {:>10} {:>8}", "vocabulary", "equal", "different", "refused");
    for path in folders.iter().flatten().flat_map(|folder| files(folder, ".gguf")) {
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        let Counts { equal, different, refused } = row(&path);
        let reason = refused.as_deref().unwrap_or(if equal + different == 0 { "no ids to compare with" } else { "" });
        println!("{name:32} {equal:6} {different:10} {:8} {reason}", u8::from(refused.is_some()));
        if different > 0 || refused.is_some() {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "vocabularies with different ids, or rejected: {wrong:?}");
}

#[test]
fn llama_3_files_match_recorded_ids() {
    let Some(folder) = conformance().map(|folder| folder.join("llama3")).filter(|folder| folder.is_dir()) else {
        return;
    };
    let ids: HashMap<String, usize> =
        serde_json::from_str(&read(&folder.join("encoder.json"))).expect("encoder.json maps tokens to ids");
    let mut tokens = vec![String::new(); ids.values().max().map_or(0, |last| last + 1)];
    for (token, id) in ids {
        tokens[id] = token;
    }
    let merges = read(&folder.join("vocab.bpe")).lines().filter(|line| line.contains(' ')).map(str::to_owned).collect();
    let vocab = Vocab { model: "gpt2".to_owned(), pre: "llama-bpe".to_owned(), tokens, merges, ..Vocab::default() };
    let tokenizer = Tokenizer::new(vocab).expect("Llama 3's vocabulary is valid");
    let counts =
        check("llama3", &tokenizer, true, &read(&folder.join("llama-bpe.inp")), &read(&folder.join("llama-bpe.out")));
    println!("{:32} {:6} {:10} {:8}", "llama3 (published files)", counts.equal, counts.different, 0);
    assert_eq!(counts.different, 0, "some ids differ");
}
