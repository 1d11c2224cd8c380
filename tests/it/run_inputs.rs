//! Inputs of `cairn run` besides text: a format, images, and no arguments at all.

use std::process::Output;

use cairn_testkit::tool_caller;
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
