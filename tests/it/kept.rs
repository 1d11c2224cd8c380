//! What was said once need not be computed again: not after the model was unloaded, and not after the daemon was restarted.

mod deleted;
#[cfg(unix)]
mod remote;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cairn::{Daemon, Home, kill, succeeded};

/// A prompt of some hundred tokens, and what the model says to it.
fn ask(daemon: &Daemon<'_>) -> Value {
    let prompt = (0..700).map(|word| format!("{} ", word * 7919 % 1000)).collect::<String>();
    let request = json!({
        "model": "m", "prompt": prompt, "raw": true, "stream": false,
        "options": {"num_predict": 12, "num_ctx": 2048, "temperature": 0}
    });
    let answer = daemon.post("/api/generate", &request).expect("the daemon lives");
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn tokens(answer: &Value, field: &str) -> u64 {
    answer[field].as_u64().unwrap_or_default()
}

/// Tokens that came from the tiers: some go up to RAM already while the model is loaded.
fn recalled(answer: &Value) -> u64 {
    ["ram_tokens", "ssd_tokens", "remote_tokens"].iter().map(|field| tokens(answer, field)).sum()
}

#[test]
fn a_prompt_is_computed_once() {
    let home = Home::new();
    let folder = home.folder.path().join("kept");
    let home = home.with("OLLAMA_KV_TIERING", "1").with("OLLAMA_KV_TIER_LOCAL", folder.to_string_lossy());
    // A model as small as this one computes its prompts about as quickly as they are read.
    let home = home.with("CAIRN_KV_WEIGH", "0");
    let model = home.folder.path().join("m.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &model).expect("the home is writable");

    let mut daemon = home.serve();
    succeeded(&home.run(&["import", &model.to_string_lossy(), "m"]));
    let first = ask(&daemon);
    let prompt = tokens(&first, "prompt_eval_count");
    assert!(prompt > 600, "the prompt is long enough to be kept: {first}");
    assert_eq!(tokens(&first, "cached_tokens"), 0, "nothing is known yet: {first}");

    succeeded(&home.run(&["stop", "m"]));
    let again = ask(&daemon);
    assert_eq!(tokens(&again, "ram_tokens"), prompt - 1, "an unloaded model finds it in RAM: {again}");
    assert_eq!(again["response"], first["response"], "and says the same");

    assert!(kill(daemon.child.id(), "-TERM"), "the daemon runs");
    assert!(daemon.child.wait().expect("it is ours").success(), "it ends well");
    drop(daemon);
    let daemon = home.serve();
    let restarted = ask(&daemon);
    assert_eq!(recalled(&restarted), prompt - 1, "a restarted daemon finds it on the disk: {restarted}");
    assert_eq!(restarted["response"], first["response"], "and says the same");
    assert!(restarted["restore_duration"].as_u64() > Some(0), "how long that took is told: {restarted}");
}

#[test]
fn a_daemon_that_is_killed_finds_what_it_had_written() {
    let home = Home::new().with("CAIRN_KV_WEIGH", "0").with("OLLAMA_KV_TIERING", "1");
    let model = home.folder.path().join("m.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &model).expect("the home is writable");
    let daemon = home.serve();
    succeeded(&home.run(&["import", &model.to_string_lossy(), "m"]));
    let first = ask(&daemon);
    // What is used a second time is written at once.
    succeeded(&home.run(&["stop", "m"]));
    let again = ask(&daemon);
    assert!(tokens(&again, "ram_tokens") > 0, "it is used again: {again}");
    let kept = home.folder.path().join("cache/kv").join(cairn_tier::format::VERSION_FOLDER);
    let written = || {
        let files = |folder: std::path::PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let folders = files(kept.clone()).flat_map(|model| files(model.path()));
        folders.flat_map(|folder| files(folder.path())).count()
    };
    let until = Instant::now() + Duration::from_secs(20);
    while written() < 2 {
        assert!(Instant::now() < until, "it is written: {}", daemon.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(kill(daemon.child.id(), "-KILL"), "the daemon runs");
    drop(daemon);
    let daemon = home.serve();
    let restarted = ask(&daemon);
    assert!(recalled(&restarted) > 0, "what was written is found: {restarted}");
    assert_eq!(restarted["response"], first["response"], "and says the same");
}
