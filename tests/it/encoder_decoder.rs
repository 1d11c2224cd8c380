//! A model with an encoder and a decoder in a daemon: the input of an answer is the whole prompt.

use cairn_models::ModelFile;
use cairn_testkit::{ModelSpec, Types, families, tiny_t5, write_file};
use it::evaluate::{self, Evaluator};
use serde_json::{Value, json};

use crate::cairn::{Daemon, Home, refused, succeeded};

/// Tokens of each answer.
const ANSWER: usize = 16;

fn generate(daemon: &Daemon<'_>, prompt: &str, options: Value) -> Value {
    let request = json!({"model": "t5", "prompt": prompt, "stream": false, "options": options});
    let answer = daemon.post("/api/generate", &request).expect("the daemon answers");
    serde_json::from_str(&answer).expect("the answer is JSON")
}

#[test]
fn answers_are_those_of_the_model_for_the_whole_prompt() {
    let home = Home::new();
    let daemon = home.serve();
    let path = home.folder.path().join("t5.gguf");
    // The daemon computes with the best kernels, as the evaluator does.
    let spec = ModelSpec { types: Types::All(cairn_gguf::DType::Q8_0), ..tiny_t5(&families::T5) };
    write_file(&spec, &path).expect("the home is writable");
    succeeded(&home.run(&["import", &path.to_string_lossy(), "t5"]));
    let file = ModelFile::open(&path).expect("the model is whole");
    let variant = cairn_kernels::usable(&cairn_hardware::Machine::probe().cpu.features)[0];
    let backend = evaluate::cpu(variant, 2).expect("threads start");
    let mut evaluator = Evaluator::new(&file, backend).expect("the model loads");

    let options = json!({"temperature": 0, "num_predict": ANSWER});
    let prompts = ["translate: The house is large.", "a", "translate: The house is small, and the garden is large."];
    for prompt in prompts {
        let first = generate(&daemon, prompt, options.clone());
        let all: Vec<u32> = serde_json::from_value(first["context"].clone()).unwrap_or_else(|_| panic!("{first}"));
        let input = first["prompt_eval_count"].as_u64().expect("the tokens of the input") as usize;
        let (input, answer) = all.split_at(input);
        let expected = evaluator.answer(input, 3, answer.len()).expect("the input fits");
        assert_eq!(answer, expected, "{prompt:?}: {first}");
        let again = generate(&daemon, prompt, options.clone());
        assert_eq!(again["response"], first["response"], "{prompt:?} with cached rows of its input");
    }
    let shown = daemon.post("/api/show", &json!({"model": "t5"})).expect("the daemon answers");
    let shown: Value = serde_json::from_str(&shown).expect("the answer is JSON");
    let capabilities = shown["capabilities"].as_array().expect("a list");
    assert!(capabilities.contains(&json!("completion")), "it generates text: {capabilities:?}");
    assert!(!succeeded(&home.run(&["run", "t5", prompts[0]])).trim().is_empty(), "the program prints an answer");

    // As for other models, a prompt that does not fit is cut, and the rest is the input.
    let long = "one more word ".repeat(60);
    let cut = generate(&daemon, &long, json!({"temperature": 0, "num_predict": 4, "num_ctx": 64}));
    assert!(cut["prompt_eval_count"].as_u64().is_some_and(|count| count < 64), "{cut}");
    assert!(daemon.log().contains("the context is full: dropped a part"), "the cut is visible");
    let whole = json!({"model": "t5", "prompt": long, "stream": false, "truncate": false, "options": {"num_ctx": 64}});
    let error = daemon.post("/api/generate", &whole).expect("the daemon answers");
    assert!(error.contains("prompt_too_long"), "the error names its cause: {error}");
}

#[test]
fn model_without_its_encoder_is_refused() {
    let home = Home::new();
    let _daemon = home.serve();
    let path = home.folder.path().join("half.gguf");
    let bytes = cairn_testkit::write(&tiny_t5(&families::T5));
    let gguf = cairn_gguf::Gguf::parse(&bytes).expect("testkit writes complete files");
    let mut writer = cairn_gguf::Writer::default();
    for (key, value) in gguf.metadata().iter() {
        writer.set(key, value.clone());
    }
    for tensor in gguf.tensors().iter().filter(|tensor| !tensor.name.starts_with("enc.")) {
        let start = tensor.offset as usize;
        let data = bytes[start..start + tensor.bytes as usize].to_vec();
        writer.tensor(tensor.name.clone(), tensor.dtype, &tensor.dims, data).expect("valid tensor");
    }
    std::fs::write(&path, writer.finish()).expect("the home is writable");
    refused(&home.run(&["import", &path.to_string_lossy(), "half"]), "`enc.blk.0-1.attn_norm.weight` are missing");
}
