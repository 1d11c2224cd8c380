//! A daemon killed during an answer, a model file truncated during an answer, and clients that disconnect.

use std::io::Read;
use std::path::PathBuf;

use serde_json::json;

use crate::cairn::{Daemon, Home, kill};

/// Reads until the first delta.
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

/// Writes a model file that generates slowly.
fn model_file(home: &Home) -> PathBuf {
    let path = home.folder.path().join("model.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the home is writable");
    path
}

/// Loads a file with `cairn run` and returns the model's name.
fn open(home: &Home, path: &std::path::Path) -> String {
    let output = home.run(&["run", &path.to_string_lossy(), ""]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let running = home.run(&["ps"]);
    let table = String::from_utf8_lossy(&running.stdout).into_owned();
    table.lines().nth(1).and_then(|line| line.split_whitespace().next()).expect("the model is loaded").to_owned()
}

fn answers(daemon: &Daemon<'_>) {
    let answer = daemon.post("/api/chat", &ask("pebble", 20)).expect("the daemon answers");
    assert!(answer.contains("\"done\":true"), "{answer}");
}

#[test]
fn daemon_restarts_after_a_kill_during_an_answer() {
    let home = Home::new();
    let path = model_file(&home);
    for _ in 0..3 {
        let daemon = home.serve();
        let name = open(&home, &path);
        await_text(&mut daemon.post_streaming("/api/chat", &ask(&name, 100_000)));
        assert!(kill(daemon.child.id(), "-KILL"), "the daemon runs");
    }
    let daemon = home.serve();
    open(&home, &path);
    answers(&daemon);
}

#[test]
fn disconnected_client_frees_its_slot() {
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
fn truncated_model_file_fails_only_the_running_answer() {
    let home = Home::new();
    let path = model_file(&home);
    let daemon = home.serve();
    let name = open(&home, &path);
    let mut stream = daemon.post_streaming("/api/chat", &ask(&name, 100_000));
    let mut content = await_text(&mut stream);
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|f| f.set_len(4096))
        .expect("the file can be truncated");
    stream.read_to_string(&mut content).expect("the answer ends");
    assert!(
        content.contains("\"error\"") && content.contains("changed or vanished"),
        "the error names the reason: {content}"
    );
    answers(&daemon);
}
