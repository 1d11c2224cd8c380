//! The published model all-MiniLM-L6-v2: converted from its safetensors file, and compared with a reference
//! implementation in float64, through the client libraries of Ollama and OpenAI.

mod recorded;

use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::cairn::{Home, succeeded};
use crate::clients::{installed, script};

/// Sentences and their vectors from the reference implementation, recorded with `minilm.py 40 --record`.
const RECORDED: &str = include_str!("embeddings/minilm.json");
/// Elements of a vector.
const WIDTH: usize = 384;

/// Number of sentences: 100 in CI, 500 in `cargo xtask prove minilm`. The first 40 are the difficult ones: languages,
/// symbols, long texts.
#[expect(clippy::disallowed_methods, reason = "`cargo xtask prove` sets the scale")]
fn sentences() -> usize {
    std::env::var("CAIRN_PROVE_RUNS").ok().and_then(|count| count.parse().ok()).unwrap_or(100)
}

/// Decodes vectors.
fn vectors(text: &Value) -> Vec<Vec<f64>> {
    let bytes = BASE64_STANDARD.decode(text.as_str().expect("a text")).expect("valid base64");
    let number = |bytes: &[u8]| f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes")));
    bytes.chunks(4).map(number).collect::<Vec<f64>>().chunks(WIDTH).map(<[f64]>::to_vec).collect()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Checks that each vector has a cosine of at least 0.9999 with the expected one, and returns the smallest.
#[track_caller]
fn check(what: &str, found: &[Vec<f64>], expected: &[Vec<f64>], texts: &[Value]) -> f64 {
    assert_eq!((found.len(), texts.len()), (expected.len(), expected.len()), "{what}: a vector for each sentence");
    let cosines = found.iter().zip(expected).map(|(a, b)| cosine(a, b));
    let (worst, text) = cosines.zip(texts).min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are sentences");
    println!("{what}: the smallest cosine is {worst:.9}, of {text}");
    assert!(worst >= 0.9999, "{what}: a cosine of {worst} for {text}");
    worst
}

#[test]
fn minilm_vectors_equal_those_of_the_reference_implementation() {
    let mut reference = Command::new(installed("minilm/bin/python"));
    reference.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/it/clients/minilm.py")).arg(sentences().to_string());
    let output = reference.output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reference: Value = serde_json::from_slice(&output.stdout).expect("the script prints JSON");
    let texts = reference["texts"].as_array().expect("sentences");
    assert_eq!(texts.len(), sentences(), "sentences");
    let expected = vectors(&reference["vectors"]);

    let recorded: Value = serde_json::from_str(RECORDED).expect("the recording is JSON");
    let first = recorded["texts"].as_array().expect("sentences");
    assert_eq!(texts[..first.len()], first[..], "the recorded sentences are the first ones");
    let worst = check("recorded", &vectors(&recorded["vectors"]), &expected[..first.len()], first);
    assert!(worst > 0.999_999_9, "the reference implementation has changed: {worst}");

    let home = Home::new();
    let modelfile = home.folder.path().join("Modelfile");
    let folder = reference["folder"].as_str().expect("a path");
    std::fs::write(&modelfile, format!("FROM {folder}\n")).expect("the home is writable");
    let _daemon = home.serve();
    let created = home.run(&["create", "minilm", "-f", &modelfile.to_string_lossy()]);
    succeeded(&created);
    assert!(String::from_utf8_lossy(&created.stderr).contains("converting model"), "the steps are shown");

    let sentences = home.folder.path().join("sentences.json");
    std::fs::write(&sentences, json!({"texts": texts}).to_string()).expect("the home is writable");
    let address = format!("http://127.0.0.1:{}", home.port);
    let report = script("embeddings.py", &[&address, "minilm", &sentences.to_string_lossy()]);
    let found = vectors(&report["vectors"]);
    check("ollama", &found, &expected, texts);
    check("openai", &vectors(&report["openai"]), &expected, texts);
    assert_eq!(report["usage"], json!([report["tokens"], report["tokens"]]), "the tokens of all texts");
    assert_eq!(vectors(&report["one"])[0], found[0], "a sentence alone has the same vector, bit for bit");
    assert_eq!(report["legacy"], report["one"], "the earlier endpoint");
    assert_eq!((&report["short"], &report["floats"]), (&json!([64, 64]), &json!(32)), "dimensions");
    assert_eq!(report["empty"], json!([[], 0]), "no input");
    assert_eq!(report["ids"], json!([[0, 1], 5]), "token ids");
    assert_eq!(report["shown"], json!(["embedding"]), "the capability");
    assert_eq!(report["listed"]["minilm:latest"], json!(["embedding"]), "{}", report["listed"]);
    let refusals = json!({
        "too long": ["ResponseError", 400,
            "the input length exceeds the context length (2000 tokens, 510 fit)"],
        "chat": ["ResponseError", 400, "\"minilm\" does not support chat"],
        "generate": ["ResponseError", 400, "\"minilm\" does not support generate"],
        "no embeddings": ["ResponseError", 501, "this model does not support embeddings"],
        "missing": ["NotFoundError", 404, "model_not_found"],
        "nothing": ["BadRequestError", 400, "invalid_request"],
    });
    assert_eq!(report["refusals"], refusals, "the packages' errors");

    // Related sentences are closer than unrelated ones, in any language that the model was trained for.
    let at = |text: &str| &found[texts.iter().position(|other| other == text).expect("a sentence")];
    let cat = at("A cat sleeps on the warm stone.");
    let near = cosine(cat, at("The kitten naps in the sun."));
    let far = cosine(cat, at("Stock prices fell sharply on Tuesday."));
    assert!(near > far + 0.3, "{near} and {far}");
}
