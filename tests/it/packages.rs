//! Packages that other programs use against the daemon. Each script of `packages/` uses one and reports what it got;
//! `src-tauri/CLIENTS.md` lists which features each package has.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use cairn_testkit::{CALLER_RESULT, tool_caller};
use serde_json::{Value, json};

use crate::cairn::{Home, succeeded, text};
use crate::clients::installed;

/// Columns of the table: keys of the reports.
const FEATURES: [&str; 9] = ["list", "chat", "stream", "tools", "schema", "embeddings", "image", "cancel", "missing"];
/// Cells of the table.
const TESTED: &str = "tested";
const NOT_OFFERED: &str = "not offered";
/// The script of the package does not test embeddings yet.
const PENDING: &str = "pending";

/// A package with its script and the classes of its errors.
struct Package {
    /// Name in the table.
    name: &'static str,
    script: &'static str,
    /// Class of the error for an image, with the status 400.
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

/// Runs a script and returns the JSON that it prints.
fn run(script: &str, words: &[&str]) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/packages").join(script);
    let folder = installed("packages");
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

/// Runs the script of a package and compares its report.
fn check(package: &Package) {
    let home = Home::new();
    let file = home.folder.path().join("caller.gguf");
    std::fs::write(&file, tool_caller()).expect("the home is writable");
    let daemon = home.serve();
    succeeded(&home.run(&["import", &file.to_string_lossy(), "caller"]));
    let question = json!({
        "model": "pebble", "stream": false, "messages": [{"role": "user", "content": "How do I pull a model?"}],
        "options": {"temperature": 0, "num_predict": 12},
    });
    let answer = daemon.post("/api/chat", &question).expect("the daemon answers");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let answer = &answer["message"]["content"];

    let report = run(package.script, &[&format!("http://127.0.0.1:{}", home.port), "caller"]);
    println!("{report:#}");
    let offered: BTreeSet<&str> = report.as_object().expect("an object").keys().map(String::as_str).collect();
    for (feature, cell) in cells(package.name) {
        let is_right = match offered.contains(feature) {
            true => cell == TESTED,
            false => cell == NOT_OFFERED || (feature == "embeddings" && cell == PENDING),
        };
        assert!(is_right, "{} in the table, {feature} is {cell:?}: {report}", package.name);
    }
    for feature in offered {
        let found = &report[feature];
        let expected = match feature {
            "list" => json!(["caller:latest", "pebble:latest"]),
            "chat" => answer.clone(),
            // The package streams objects only.
            "stream" if report.get("chat").is_none() => json!(["ok"]),
            "stream" => answer.clone(),
            "tools" => json!([[["weather", {"city": "Oslo", "days": 2}], ["clock", {}]], CALLER_RESULT]),
            "schema" => json!(["ok"]),
            "image" => json!([package.image, 400]),
            "missing" => json!([package.missing, 404]),
            "cancel" => json!(true),
            other => panic!("{}: unexpected key {other}: {report}", package.name),
        };
        assert_eq!(found, &expected, "{}, {feature}", package.name);
    }
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

#[test]
fn langchain_ollama_gets_the_expected_results() {
    check(&Package {
        name: "`langchain-ollama`",
        script: "langchain_ollama_package.py",
        image: "ResponseError",
        missing: "ResponseError",
    });
}

#[test]
fn langchain_openai_gets_the_expected_results() {
    check(&Package {
        name: "`langchain-openai`",
        script: "langchain_openai_package.py",
        image: "OpenAIInvalidRequestError",
        missing: "OpenAIModelNotFoundError",
    });
}

#[test]
fn litellm_gets_the_expected_results() {
    check(&Package {
        name: "`litellm`, `ollama_chat`",
        script: "litellm_package.py",
        image: "BadRequestError",
        missing: "NotFoundError",
    });
}

#[test]
fn instructor_gets_the_expected_results() {
    check(&Package {
        name: "`instructor`",
        script: "instructor_package.py",
        image: "InstructorRetryException",
        missing: "InstructorRetryException",
    });
}

#[test]
fn llama_index_ollama_gets_the_expected_results() {
    check(&Package {
        name: "`llama-index-llms-ollama`",
        script: "llama_index_ollama_package.py",
        image: "ResponseError",
        missing: "ResponseError",
    });
}

#[test]
fn llama_index_openai_like_gets_the_expected_results() {
    check(&Package {
        name: "`llama-index-llms-openai-like`",
        script: "llama_index_openai_like_package.py",
        image: "BadRequestError",
        missing: "NotFoundError",
    });
}

#[test]
fn ollama_npm_gets_the_expected_results() {
    check(&Package {
        name: "npm `ollama`",
        script: "ollama_npm.cjs",
        image: "ResponseError",
        missing: "ResponseError",
    });
}

#[test]
fn openai_npm_gets_the_expected_results() {
    check(&Package {
        name: "npm `openai`",
        script: "openai_npm.cjs",
        image: "BadRequestError",
        missing: "NotFoundError",
    });
}

#[test]
fn anthropic_npm_gets_the_expected_results() {
    check(&Package {
        name: "npm `@anthropic-ai/sdk`",
        script: "anthropic_npm.cjs",
        image: "BadRequestError",
        missing: "NotFoundError",
    });
}

#[test]
fn ai_ollama_gets_the_expected_results() {
    check(&Package {
        name: "npm `ai`, `ollama-ai-provider-v2`",
        script: "ai_ollama.cjs",
        image: "AI_APICallError",
        missing: "AI_APICallError",
    });
}

#[test]
fn ai_openai_compatible_gets_the_expected_results() {
    check(&Package {
        name: "npm `ai`, `@ai-sdk/openai-compatible`",
        script: "ai_openai_compatible.cjs",
        image: "AI_APICallError",
        missing: "AI_APICallError",
    });
}
