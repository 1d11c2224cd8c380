//! Inputs of `cairn run` besides text: a format, images, and no arguments at all.

use std::process::Output;

use cairn_testkit::{families, tiny_bert, tool_caller, write_file};
use serde_json::{Value, json};

use crate::cairn::{Home, refused, succeeded, text};
use crate::terminal::Terminal;

fn schema() -> Value {
    let properties = json!({"ok": {"type": "boolean"}});
    json!({"type": "object", "properties": properties, "required": ["ok"], "additionalProperties": false})
}

#[test]
fn format_of_a_file_constrains_the_answer() {
    let home = Home::new();
    let _daemon = home.serve();
    let file = home.folder.path().join("schema.json");
    std::fs::write(&file, schema().to_string()).expect("the home is writable");
    for format in [file.to_string_lossy().into_owned(), schema().to_string()] {
        let answer = succeeded(&home.run(&["run", "pebble", "--format", &format, "Is it on?"]));
        let answer: Value = serde_json::from_str(&answer).expect("the answer is JSON");
        assert!(answer["ok"].is_boolean(), "{answer}");
    }
    refused(&home.run(&["run", "pebble", "--format", "xml", "Is it on?"]), "the format must be json, a JSON Schema");
    let unsupported = r#"{"type": "object", "$ref": "https://a.example/b"}"#;
    let error = refused(&home.run(&["run", "pebble", "--format", unsupported, "Is it on?"]), "");
    assert!(error.contains("$ref"), "the daemon names the keyword: {error}");
}

#[test]
fn image_path_for_a_model_without_vision_stays_text() {
    let home = Home::new();
    let _daemon = home.serve();
    let image = home.folder.path().join("a cat.png");
    std::fs::write(&image, "pixels").expect("the home is writable");
    let path = image.to_string_lossy();
    let check = |output: &Output, is_named: bool| {
        succeeded(output);
        let note = text(&output.stderr);
        assert_eq!(note.contains("has no vision") && note.contains(&*path), is_named, "{note}");
        assert!(!note.contains("Added image"), "{note}");
    };
    check(&home.run(&["run", "pebble", &format!("Describe {path}?")]), true);
    check(&home.run(&["run", "pebble", "Describe /absent/a.png?"]), false);
    check(&home.run_with_input(&["run", "pebble", "Describe it."], &format!("see {path}\n")), false);
}

#[test]
fn embedding_model_prints_the_vector_of_a_text() {
    let home = Home::new();
    let _daemon = home.serve();
    let file = home.folder.path().join("embedder.gguf");
    let spec = tiny_bert(&families::BERT);
    write_file(&spec, &file).expect("the home is writable");
    succeeded(&home.run(&["import", &file.to_string_lossy(), "embedder"]));
    let vector = |output: &Output| -> Vec<f64> {
        serde_json::from_str(&succeeded(output)).expect("the output is a JSON array of numbers")
    };
    let hello = vector(&home.run(&["run", "embedder", "hello"]));
    assert_eq!(hello.len() as u64, spec.width, "an element for each dimension");
    assert_eq!(vector(&home.run_with_input(&["run", "embedder"], "hello\n")), hello, "piped text");
    assert_eq!(vector(&home.run(&["run", "embedder", "--dimensions", "4", "hello"])).len(), 4);
    let long = "hello ".repeat(1000);
    vector(&home.run(&["run", "embedder", &long]));
    refused(&home.run(&["run", "embedder", "--truncate=false", &long]), "context length");
    assert_eq!(succeeded(&home.run(&["run", "embedder", ""])), "", "an empty prompt only loads the model");
    let mut terminal = Terminal::begin(&home, &["run", "embedder"]);
    terminal.wait_for("embedder is an embedding model and cannot chat");
    assert!(!terminal.end().success(), "there is no chat");
    let mut terminal = Terminal::begin(&home, &[]);
    terminal.wait_for("Chatting with pebble:latest.");
    terminal.type_in("/bye\n");
    assert!(terminal.end().success(), "an embedding model is never the last model");
    let note = home.run(&["run", "pebble", "--dimensions", "4", "hello"]);
    assert!(text(&note.stderr).contains("no embedding model"), "{}", text(&note.stderr));
}

#[test]
fn no_verb_chats_with_the_last_model() {
    let home = Home::new();
    let file = home.folder.path().join("caller.gguf");
    std::fs::write(&file, tool_caller()).expect("the home is writable");
    let daemon = home.serve();
    let chat = |expected: &str| {
        let mut terminal = Terminal::begin(&home, &[]);
        terminal.wait_for(&format!("Chatting with {expected}."));
        terminal.wait_for(">>> ");
        terminal.type_in("/bye\n");
        assert!(terminal.end().success(), "the chat ends");
    };
    chat("pebble:latest");
    succeeded(&home.run(&["import", &file.to_string_lossy(), "caller"]));
    succeeded(&home.run(&["run", "caller", "Hello"]));
    chat("caller");
    daemon.delete("/api/delete", &json!({"model": "caller"})).expect("the daemon answers");
    chat("pebble:latest");
    let help = succeeded(&home.run(&[]));
    assert!(help.contains("Usage:"), "without a terminal, the help: {help}");
}
