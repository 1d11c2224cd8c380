//! Packages that other programs use against the daemon. Each script of `packages/` uses one and reports what it got;
//! `src-tauri/CLIENTS.md` lists which features each package has.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use cairn_testkit::random::Random;
use cairn_testkit::{CALLER_RESULT, families, tiny_bert, tool_caller, write_file};
use serde_json::{Value, json};

use crate::cairn::{Daemon, Home, succeeded, text};
use crate::clients::installed;
use crate::shapes::{self, Figure};

/// Columns of the table: keys of the reports.
const FEATURES: [&str; 9] = ["list", "chat", "stream", "tools", "schema", "embeddings", "image", "cancel", "missing"];
/// Cells of the table.
const TESTED: &str = "tested";
const NOT_OFFERED: &str = "not offered";
/// Inputs of embeddings and the length of short vectors, as in the scripts.
const TEXTS: [&str; 2] = ["A stone.", "How far away is the sun?"];
const DIMENSIONS: usize = 16;

/// A package with its script and the classes of its errors.
struct Package {
    /// Name in the table.
    name: &'static str,
    /// Folder of the environment that has the package.
    environment: &'static str,
    script: &'static str,
    /// Class of the error for an image that Pebble cannot see, with the status 400.
    image: &'static str,
    /// Class of the error for a missing model, with the status 404.
    missing: &'static str,
}

/// Returns the table's cells of a package, by column.
fn cells(package: &str) -> Vec<(&'static str, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src-tauri/CLIENTS.md");
    let table = std::fs::read_to_string(path).expect("the table can be read");
    let prefix = format!("| {package} |");
    let row = table.lines().find_map(|line| line.strip_prefix(&prefix)).expect("the package has a row");
    let cells: Vec<String> = row.trim_end_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    assert_eq!(cells.len(), FEATURES.len(), "{package}: {row}");
    FEATURES.into_iter().zip(cells).collect()
}

/// Runs a script in an environment and returns the JSON that it prints.
fn run(environment: &str, script: &str, words: &[&str]) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/packages").join(script);
    let folder = installed(environment);
    let mut command = match script.ends_with(".cjs") {
        true => {
            let mut node = Command::new(folder.join("bin/node"));
            node.env("NODE_PATH", folder.join("node_modules"));
            node
        }
        false => Command::new(folder.join("bin/python")),
    };
    let output = command.arg(path).args(words).env("DO_NOT_TRACK", "1").output().expect("the script's language starts");
    assert!(output.status.success(), "{script}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the script prints JSON")
}

/// Returns the daemon's vectors of texts, after checks of their number, their dimension and their length of 1.
fn embed(daemon: &Daemon<'_>, dimensions: usize) -> Vec<Vec<f64>> {
    let request = json!({"model": "embedder", "input": TEXTS, "dimensions": dimensions});
    let response = daemon.post("/api/embed", &request).expect("the daemon answers");
    let response: Value = serde_json::from_str(&response).expect("JSON");
    let vectors = vectors(&response["embeddings"]);
    assert_eq!(vectors.iter().map(Vec::len).collect::<Vec<_>>(), [dimensions; TEXTS.len()], "{response}");
    for vector in &vectors {
        let length = vector.iter().map(|element| element * element).sum::<f64>().sqrt();
        assert!((length - 1.0).abs() < 1e-5, "a length of {length}");
    }
    assert_ne!(vectors[0], vectors[1], "the vector depends on the text");
    vectors
}

fn vectors(found: &Value) -> Vec<Vec<f64>> {
    serde_json::from_value(found.clone()).unwrap_or_else(|error| panic!("{error}: {found}"))
}

/// Rounds the elements of vectors to the precision of the daemon.
fn rounded(vectors: &[Vec<f64>]) -> Vec<Vec<f32>> {
    vectors.iter().map(|vector| vector.iter().map(|element| *element as f32).collect()).collect()
}

/// Compares the vectors that a package got with those of the daemon: `texts`, `one` for the first text alone, `short`, and
/// `base64` if the package can request this form.
fn check_embeddings(package: &str, found: &Value, daemon: &Daemon<'_>, width: u64) {
    let expected = embed(daemon, width as usize);
    assert_eq!(rounded(&vectors(&found["texts"])), rounded(&expected), "{package}, all texts");
    assert_eq!(rounded(&vectors(&json!([found["one"]]))), rounded(&expected[..1]), "{package}, one text");
    assert_eq!(rounded(&vectors(&found["short"])), rounded(&embed(daemon, DIMENSIONS)), "{package}, dimensions");
    if let Some(found) = found.get("base64") {
        let exact = vectors(found);
        assert_eq!(rounded(&exact), rounded(&expected), "{package}, base64");
        // Numbers of JSON are rounded to fewer digits.
        let is_exact = |element: &f64| (f64::from(*element as f32) - element).abs() < 1e-14;
        assert!(exact.iter().flatten().all(is_exact), "{package}: the vectors were no base64");
    }
}

/// Runs the script of a package and compares its report.
fn check(package: &Package) {
    let home = Home::new();
    let file = home.folder.path().join("caller.gguf");
    std::fs::write(&file, tool_caller()).expect("the home is writable");
    let daemon = home.serve();
    succeeded(&home.run(&["import", &file.to_string_lossy(), "caller"]));
    let file = home.folder.path().join("embedder.gguf");
    let embedder = tiny_bert(&families::BERT);
    write_file(&embedder, &file).expect("the home is writable");
    succeeded(&home.run(&["import", &file.to_string_lossy(), "embedder"]));
    shapes::create(&home);
    // The model is sure of this one, with a line end before the question, too, which `langchain-ollama` adds.
    let figure = Figure::random("heart", &mut Random::new(38));
    let question = json!({
        "model": "pebble", "stream": false, "messages": [{"role": "user", "content": "How do I pull a model?"}],
        "options": {"temperature": 0, "num_predict": 12},
    });
    let answer = daemon.post("/api/chat", &question).expect("the daemon answers");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let answer = &answer["message"]["content"];

    let address = format!("http://127.0.0.1:{}", home.port);
    let mut report =
        run(package.environment, package.script, &[&address, "caller", "embedder", "shapes", &figure.png()]);
    let offered: BTreeSet<String> = report.as_object().expect("an object").keys().cloned().collect();
    if let Some(found) = report.as_object_mut().and_then(|report| report.remove("embeddings")) {
        check_embeddings(package.name, &found, &daemon, embedder.width);
    }
    println!("{report:#}");
    for (feature, cell) in cells(package.name) {
        let is_right = match offered.contains(feature) {
            true => cell == TESTED,
            false => cell == NOT_OFFERED,
        };
        assert!(is_right, "{} in the table, {feature} is {cell:?}: {report}", package.name);
    }
    for (feature, found) in report.as_object().expect("an object") {
        let expected = match feature.as_str() {
            "list" => json!(["caller:latest", "embedder:latest", "pebble:latest", "shapes:latest"]),
            "chat" => answer.clone(),
            // The package streams objects only.
            "stream" if report.get("chat").is_none() => json!(["ok"]),
            "stream" => answer.clone(),
            "tools" => json!([[["weather", {"city": "Oslo", "days": 2}], ["clock", {}]], CALLER_RESULT]),
            "schema" => json!(["ok"]),
            // The package asks for objects only.
            "image" if report.get("chat").is_none() => json!([[package.image, 400], ["ok"]]),
            "image" => json!([[package.image, 400], figure.expected()]),
            "missing" => json!([package.missing, 404]),
            "cancel" => json!(true),
            other => panic!("{}: unexpected key {other}: {report}", package.name),
        };
        assert_eq!(found, &expected, "{}, {feature}", package.name);
    }
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

#[test]
fn ollama_gets_the_expected_results() {
    check(&Package {
        name: "`ollama`",
        environment: "clients",
        script: "ollama_package.py",
        image: "ResponseError",
        missing: "ResponseError",
    });
}

#[test]
fn openai_gets_the_expected_results() {
    check(&Package {
        name: "`openai`",
        environment: "clients",
        script: "openai_package.py",
        image: "BadRequestError",
        missing: "NotFoundError",
    });
}

#[test]
fn anthropic_gets_the_expected_results() {
    check(&Package {
        name: "`anthropic`",
        environment: "clients",
        script: "anthropic_package.py",
        image: "BadRequestError",
        missing: "NotFoundError",
    });
}

#[test]
fn langchain_ollama_gets_the_expected_results() {
    check(&Package {
        name: "`langchain-ollama`",
        environment: "packages",
        script: "langchain_ollama_package.py",
        image: "ResponseError",
        missing: "ResponseError",
    });
}

#[test]
fn langchain_openai_gets_the_expected_results() {
    check(&Package {
        name: "`langchain-openai`",
        environment: "packages",
        script: "langchain_openai_package.py",
        image: "OpenAIInvalidRequestError",
        missing: "OpenAIModelNotFoundError",
    });
}

#[test]
fn litellm_gets_the_expected_results() {
    check(&Package {
        name: "`litellm`, `ollama_chat` and `ollama`",
        environment: "packages",
        script: "litellm_package.py",
        image: "BadRequestError",
        missing: "NotFoundError",
    });
}

#[test]
fn instructor_gets_the_expected_results() {
    check(&Package {
        name: "`instructor`",
        environment: "packages",
        script: "instructor_package.py",
        image: "InstructorRetryException",
        missing: "InstructorRetryException",
    });
}

#[test]
fn llama_index_ollama_gets_the_expected_results() {
    check(&Package {
        name: "`llama-index-llms-ollama`",
        environment: "packages",
        script: "llama_index_ollama_package.py",
        image: "ResponseError",
        missing: "ResponseError",
    });
}

#[test]
fn llama_index_openai_like_gets_the_expected_results() {
    check(&Package {
        name: "`llama-index-llms-openai-like`",
        environment: "packages",
        script: "llama_index_openai_like_package.py",
        image: "BadRequestError",
        missing: "NotFoundError",
    });
}

#[test]
fn ollama_npm_gets_the_expected_results() {
    check(&Package {
        name: "npm `ollama`",
        environment: "packages",
        script: "ollama_npm.cjs",
        image: "ResponseError",
        missing: "ResponseError",
    });
}

#[test]
fn openai_npm_gets_the_expected_results() {
    check(&Package {
        name: "npm `openai`",
        environment: "packages",
        script: "openai_npm.cjs",
        image: "BadRequestError",
        missing: "NotFoundError",
    });
}

#[test]
fn anthropic_npm_gets_the_expected_results() {
    check(&Package {
        name: "npm `@anthropic-ai/sdk`",
        environment: "packages",
        script: "anthropic_npm.cjs",
        image: "BadRequestError",
        missing: "NotFoundError",
    });
}

#[test]
fn ai_ollama_gets_the_expected_results() {
    check(&Package {
        name: "npm `ai`, `ollama-ai-provider-v2`",
        environment: "packages",
        script: "ai_ollama.cjs",
        image: "AI_APICallError",
        missing: "AI_APICallError",
    });
}

#[test]
fn ai_openai_compatible_gets_the_expected_results() {
    check(&Package {
        name: "npm `ai`, `@ai-sdk/openai-compatible`",
        environment: "packages",
        script: "ai_openai_compatible.cjs",
        image: "AI_APICallError",
        missing: "AI_APICallError",
    });
}
