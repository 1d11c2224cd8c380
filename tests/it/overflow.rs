//! Prompts longer than the context: what is dropped, and how that is reported.

use serde_json::json;

use crate::cairn::{Home, succeeded, text};
use crate::clients;
use crate::terminal::Terminal;

/// Start of the note in the terminal.
const LEFT_OUT: &str = "Left out of the context of 256 tokens: ";

#[test]
fn overlong_question_reports_dropped_tokens() {
    let home = Home::new().with("OLLAMA_CONTEXT_LENGTH", "256");
    let question = "How do I pull a model? And how do I see what I have? ".repeat(40);
    let output = home.run(&["run", "pebble", &question]);
    succeeded(&output);
    let stderr = text(&output.stderr);
    let line = stderr
        .lines()
        .find(|line| line.starts_with(LEFT_OUT))
        .unwrap_or_else(|| panic!("the note is missing: {stderr}"));
    assert!(line.ends_with(" tokens out of the middle."), "{line}");
    let output = home.run(&["run", "pebble", "How do I pull a model?"]);
    succeeded(&output);
    assert!(!text(&output.stderr).contains("Left out"), "a short prompt is complete: {}", text(&output.stderr));
}

#[test]
fn long_chat_reports_dropped_turns() {
    let home = Home::new().with("OLLAMA_CONTEXT_LENGTH", "256");
    let mut terminal = Terminal::begin(&home, &["run", "pebble"]);
    terminal.wait_for(">>> ");
    let mut send_line = |line: &str| {
        terminal.type_in(format!("{line}\n"));
        terminal.wait_for(">>> ")
    };
    send_line("/set parameter temperature 0");
    send_line("/set parameter num_predict 20");
    let question = "Where are my models kept, and how do I move them to another disk without pulling them all again?";
    let answers: Vec<String> = (0..12).map(|_| send_line(question)).collect();
    let first = answers.iter().position(|answer| answer.contains(LEFT_OUT)).expect("twelve turns are too many");
    assert!(first > 0, "the first turn fits: {:?}", answers[0]);
    assert!(answers[first..].iter().all(|answer| answer.contains(LEFT_OUT)), "each later answer has the note");
    assert!(answers[first].contains("oldest turn"), "{:?}", answers[first]);
}

#[test]
fn chats_longer_than_the_context_work_through_the_ollama_package() {
    let home = Home::new();
    let daemon = home.serve();
    let report = clients::script("overflow.py", &[&format!("http://127.0.0.1:{}", home.port)]);
    println!("{report}");
    assert_eq!(report["refused"], json!([400, true]), "truncate: false leaves nothing out: {report}");
    assert_eq!(report["ended"], "length", "shift: false ends with the context: {report}");
    assert_eq!(report["seams"], json!([]), "streamed and unstreamed answers are equal: {report}");
    assert!(report["dropped"].as_u64() > Some(0), "turns were dropped: {report}");
    // The system message is a cache hit in each truncated request.
    assert!(report["least_cached"].as_u64() > Some(20), "{report}");
    let lines = daemon.log().matches("the context is full: dropped a part of the conversation").count();
    // The log has an additional line where the answer itself filled the context.
    assert!(
        lines as u64 >= report["reported"].as_u64().expect("a number"),
        "a log line for each report: {lines}, {report}"
    );
}
