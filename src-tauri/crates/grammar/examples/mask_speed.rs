//! How long masks take: `cargo run --release -p cairn-grammar --example mask_speed -- FILE.gguf`.
//!
//! Adds answers to matchers token by token, and prints the median, the 99th percentile and the maximum of the time for a mask. The
//! vocabulary is that of a GGUF file, or that of Llama 3 in the folder of its published files, `encoder.json` and `vocab.bpe`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use cairn_gguf::Gguf;
use cairn_grammar::{Constraint, Matcher, Vocabulary};
use cairn_tokenizer::{EncodeOptions, Tokenizer, Vocab};
use serde_json::Value;

/// Schemas, each with an answer.
const CASES: [(&str, &str, &str); 6] = [
    (
        "person",
        r#"{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0,
        "maximum": 150}, "email": {"type": "string", "format": "email"}}, "required": ["name", "age", "email"],
        "additionalProperties": false}"#,
        r#"{"name": "Ada Lovelace of London", "age": 36, "email": "ada.lovelace@analytical.example.org"}"#,
    ),
    (
        "strings",
        r#"{"type": "object", "properties": {"text": {"type": "string", "maxLength": 400}, "code": {"type": "string",
        "pattern": "^[A-Z]{2}-[0-9]{4}$"}}, "required": ["text", "code"]}"#,
        r#"{"text": "The quick brown fox jumps over the lazy dog, \"twice\", and then rests beside the river until evening.", "code": "AB-1234"}"#,
    ),
    (
        "list",
        r#"{"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}, "tags": {"type": "array",
        "items": {"enum": ["red", "green", "blue"]}}, "price": {"type": "number"}}, "required": ["id", "tags", "price"]}}"#,
        r#"[{"id": 1, "tags": ["red", "blue"], "price": 12.5}, {"id": 20, "tags": [], "price": 1e3, "note": {"a": [1, "x"]}}]"#,
    ),
    (
        "tree",
        r##"{"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"value": {"type": "string"}, "children":
        {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["value", "children"], "additionalProperties": false}}}"##,
        r#"{"value": "root", "children": [{"value": "left", "children": []}, {"value": "right", "children": [{"value": "leaf", "children": []}]}]}"#,
    ),
    (
        "union",
        r#"{"anyOf": [{"type": "object", "properties": {"tool": {"const": "search"}, "query": {"type": "string"}}, "required":
        ["tool", "query"], "additionalProperties": false}, {"type": "object", "properties": {"tool": {"const": "open"}, "url": {"type":
        "string", "format": "uri"}}, "required": ["tool", "url"], "additionalProperties": false}]}"#,
        r#"{"tool": "open", "url": "https://example.org/a/long/path?with=query&and=more"}"#,
    ),
    (
        "any object",
        r#"{"type": "object"}"#,
        "{\n  \"title\": \"A report\",\n  \"sections\": [\n    {\"heading\": \"One\", \"body\": \"Some words about it.\", \"n\": -1.25e-3},\n    null, true\n  ]\n}",
    ),
];

fn main() {
    let path = std::env::args().nth(1).expect("the path of a GGUF file, or of a folder");
    let tokenizer = if Path::new(&path).is_dir() { published(Path::new(&path)) } else { of_file(Path::new(&path)) };
    let began = Instant::now();
    let ids = 0..tokenizer.vocab_size() as u32;
    let pieces = ids.map(|id| if tokenizer.is_control(id) { &[][..] } else { tokenizer.piece(id) });
    let vocabulary = Vocabulary::new(pieces, tokenizer.end_ids()).expect("the vocabulary is valid");
    println!("{} tokens indexed in {:.0} ms", vocabulary.len(), began.elapsed().as_secs_f64() * 1e3);
    let mut all = Vec::new();
    for (name, schema, answer) in CASES {
        let schema: Value = serde_json::from_str(schema).expect("the schema is valid JSON");
        let tokens = tokenizer.encode(answer, EncodeOptions::default());
        let began = Instant::now();
        let matcher = Matcher::new(&vocabulary, &Constraint::JsonSchema(schema)).expect("the schema is supported");
        let compiled = began.elapsed();
        let mut times = Vec::new();
        // A clone starts with the lexer of a new matcher, so each round is as slow as the first.
        for _ in 0..5 {
            let mut matcher = matcher.clone();
            for &token in &tokens {
                matcher.accept(token).expect("the answer matches");
                let began = Instant::now();
                matcher.mask().expect("a mask");
                times.push(began.elapsed());
            }
        }
        all.extend_from_slice(&times);
        println!("{name:12} compiled in {:6.2} ms, {}", compiled.as_secs_f64() * 1e3, summary(times));
    }
    println!("{:12} {:>21}  {}", "all", "", summary(all));
}

fn summary(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    format!("{} masks: median {:.0} us, 99% {:.0} us, maximum {:.0} us", times.len(), at(0.5), at(0.99), at(1.0))
}

fn of_file(path: &Path) -> Tokenizer {
    let file = fs::read(path).expect("the file is readable");
    let file = Gguf::parse(&file).expect("the file is complete");
    Tokenizer::from_metadata(file.metadata()).expect("the vocabulary is valid")
}

fn published(folder: &Path) -> Tokenizer {
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("the file is readable");
    let ids: serde_json::Map<String, Value> = serde_json::from_str(&read("encoder.json")).expect("tokens with ids");
    let id = |value: &Value| value.as_u64().expect("an id") as usize;
    let mut tokens = vec![String::new(); ids.values().map(id).max().map_or(0, |last| last + 1)];
    for (token, value) in ids {
        tokens[id(&value)] = token;
    }
    let merges = read("vocab.bpe").lines().filter(|line| line.contains(' ')).map(str::to_owned).collect();
    let vocab = Vocab { model: "gpt2".to_owned(), pre: "llama-bpe".to_owned(), tokens, merges, ..Vocab::default() };
    Tokenizer::new(vocab).expect("the vocabulary is valid")
}
