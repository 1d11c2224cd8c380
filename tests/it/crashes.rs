//! What must survive: a daemon killed in the middle of an answer, a model file cut under it, a client that leaves.

use std::io::Read;
use std::path::PathBuf;

use serde_json::json;

use crate::cairn::{Daemon, Home, kill};

/// Reads until the answer has begun.
fn await_text(stream: &mut impl Read) -> String {
    let mut seen = String::new();
    let mut buffer = [0; 256];
    while !seen.contains("\"content\"") {
        let read = stream.read(&mut buffer).expect("the daemon answers");
        assert!(read > 0, "the answer ended early: {seen}");
        seen += &String::from_utf8_lossy(&buffer[..read]);
    }
    seen
}

fn ask(model: &str, tokens: u32) -> serde_json::Value {
    json!({
        "model": model,
        "messages": [{"role": "user", "content": "How do I pull a model?"}],
        "options": {"num_predict": tokens, "temperature": 0}
    })
}

/// A model file large enough that an answer of it takes a while.
fn model_file(home: &Home) -> PathBuf {
    let path = home.folder.path().join("model.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the home is writable");
    path
}

/// Opens a file as `cairn run ./file.gguf` does, and returns the name it got.
fn open(home: &Home, path: &std::path::Path) -> String {
    let output = home.run(&["run", &path.to_string_lossy(), ""]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let running = home.run(&["ps"]);
    let table = String::from_utf8_lossy(&running.stdout).into_owned();
    table.lines().nth(1).and_then(|line| line.split_whitespace().next()).expect("the model is loaded").to_owned()
}

fn answers(daemon: &Daemon<'_>) {
    let answer = daemon.post("/api/chat", &ask("pebble", 20)).expect("the daemon lives");
    assert!(answer.contains("\"done\":true"), "{answer}");
}

#[test]
fn a_killed_daemon_leaves_nothing_behind_that_hinders_the_next() {
    let home = Home::new();
    let path = model_file(&home);
    for _ in 0..3 {
        let daemon = home.serve();
        let name = open(&home, &path);
        await_text(&mut daemon.post_streaming("/api/chat", &ask(&name, 100_000)));
        assert!(kill(daemon.child.id(), "-KILL"), "it is still answering");
    }
    let daemon = home.serve();
    open(&home, &path);
    answers(&daemon);
}

#[test]
fn a_client_that_leaves_frees_its_place() {
    let home = Home::new().with("OLLAMA_NUM_PARALLEL", "1");
    let path = model_file(&home);
    let daemon = home.serve();
    let name = open(&home, &path);
    for _ in 0..5 {
        await_text(&mut daemon.post_streaming("/api/chat", &ask(&name, 100_000)));
    }
    let answer = daemon.post("/api/chat", &ask(&name, 5)).expect("the daemon answers");
    assert!(answer.contains("\"done\":true"), "{answer}");
}

#[test]
fn a_model_file_cut_in_the_middle_of_an_answer_fails_that_answer_only() {
    let home = Home::new();
    let path = model_file(&home);
    let daemon = home.serve();
    let name = open(&home, &path);
    let mut stream = daemon.post_streaming("/api/chat", &ask(&name, 100_000));
    let mut said = await_text(&mut stream);
    std::fs::OpenOptions::new().write(true).open(&path).and_then(|f| f.set_len(4096)).expect("the file can be cut");
    stream.read_to_string(&mut said).expect("the answer ends");
    assert!(said.contains("\"error\"") && said.contains("changed or vanished"), "the reason is missing: {said}");
    answers(&daemon);
}
