//! What is too long for its context: what goes, what stays, and who says so.

use serde_json::json;

use crate::cairn::{Home, succeeded, text};
use crate::clients;
use crate::terminal::Terminal;

/// What the line at the terminal begins with.
const LEFT_OUT: &str = "Left out, since 256 tokens of context have no room for it: ";

#[test]
fn a_question_that_is_too_long_says_what_went() {
    let home = Home::new().with("OLLAMA_CONTEXT_LENGTH", "256");
    let question = "How do I pull a model? And how do I see what I have? ".repeat(40);
    let output = home.run(&["run", "pebble", &question]);
    succeeded(&output);
    let said = text(&output.stderr);
    let line =
        said.lines().find(|line| line.starts_with(LEFT_OUT)).unwrap_or_else(|| panic!("no line says it: {said}"));
    assert!(line.ends_with(" tokens out of the middle."), "{line}");
    let output = home.run(&["run", "pebble", "How do I pull a model?"]);
    succeeded(&output);
    assert!(!text(&output.stderr).contains("Left out"), "a short one loses nothing: {}", text(&output.stderr));
}

#[test]
fn a_long_chat_says_which_turns_went() {
    let home = Home::new().with("OLLAMA_CONTEXT_LENGTH", "256");
    let mut terminal = Terminal::begin(&home, &["run", "pebble"]);
    terminal.wait_for(">>> ");
    let mut say = |line: &str| {
        terminal.type_in(format!("{line}\n"));
        terminal.wait_for(">>> ")
    };
    say("/set parameter temperature 0");
    say("/set parameter num_predict 20");
    let question = "Where are my models kept, and how do I move them to another disk without pulling them all again?";
    let answers: Vec<String> = (0..12).map(|_| say(question)).collect();
    let first = answers.iter().position(|answer| answer.contains(LEFT_OUT)).expect("twelve turns are too many");
    assert!(first > 0, "the first turn fits: {:?}", answers[0]);
    assert!(answers[first..].iter().all(|answer| answer.contains(LEFT_OUT)), "and from then on each answer says it");
    assert!(answers[first].contains("oldest turn"), "{:?}", answers[first]);
}

#[test]
fn chats_that_outgrow_their_context_through_the_ollama_package() {
    let home = Home::new();
    let daemon = home.serve();
    let report = clients::script("overflow.py", &[&format!("http://127.0.0.1:{}", home.port)]);
    println!("{report}");
    assert_eq!(report["refused"], json!([400, true]), "truncate: false leaves nothing out: {report}");
    assert_eq!(report["ended"], "length", "shift: false ends with the context: {report}");
    assert_eq!(report["seams"], json!([]), "streamed or not, an answer is the same: {report}");
    assert!(report["dropped"].as_u64() > Some(0), "turns went: {report}");
    // Each answer without its oldest turns found the system message computed.
    assert!(report["least_cached"].as_u64() > Some(20), "{report}");
    let lines = daemon.log().matches("what does not fit into the context was left out").count();
    // One more where what fitted was filled up by the answer.
    assert!(
        lines as u64 >= report["told"].as_u64().expect("a number"),
        "the log has a line for each: {lines}, {report}"
    );
}
