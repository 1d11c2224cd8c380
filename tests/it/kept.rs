//! Cached prefixes are restored after the model was unloaded and after the daemon was restarted.

mod deleted;
mod erased;
#[cfg(unix)]
mod remote;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cairn::{Daemon, Home, kill, succeeded};

/// Sends a prompt of some hundred tokens and returns the response.
fn ask(daemon: &Daemon<'_>) -> Value {
    let prompt = (0..700).map(|word| format!("{} ", word * 7919 % 1000)).collect::<String>();
    let request = json!({
        "model": "m", "prompt": prompt, "raw": true, "stream": false,
        "options": {"num_predict": 12, "num_ctx": 2048, "temperature": 0}
    });
    let answer = daemon.post("/api/generate", &request).expect("the daemon answers");
    serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn tokens(answer: &Value, field: &str) -> u64 {
    answer[field].as_u64().unwrap_or_default()
}

/// Returns the number of tokens restored from any tier. Some chunks are prefetched to RAM while the model loads.
fn restored_tokens(answer: &Value) -> u64 {
    ["ram_tokens", "ssd_tokens", "remote_tokens"].iter().map(|field| tokens(answer, field)).sum()
}

#[test]
fn prompt_is_restored_after_unload_and_restart() {
    let home = Home::new();
    let folder = home.folder.path().join("tier");
    let home = home.with("OLLAMA_KV_TIERING", "1").with("OLLAMA_KV_TIER_LOCAL", folder.to_string_lossy());
    // Recomputing a model this small is as fast as restoring, so the comparison is switched off.
    let home = home.with("CAIRN_KV_WEIGH", "0");
    let model = home.folder.path().join("m.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &model).expect("the home is writable");

    let mut daemon = home.serve();
    succeeded(&home.run(&["import", &model.to_string_lossy(), "m"]));
    let first = ask(&daemon);
    let prompt = tokens(&first, "prompt_eval_count");
    assert!(prompt > 600, "the prompt is long enough to be cached: {first}");
    assert_eq!(tokens(&first, "cached_tokens"), 0, "nothing is cached yet: {first}");

    succeeded(&home.run(&["stop", "m"]));
    let again = ask(&daemon);
    assert_eq!(tokens(&again, "ram_tokens"), prompt - 1, "restored from RAM: {again}");
    assert_eq!(again["response"], first["response"], "the same answer");

    assert!(kill(daemon.child.id(), "-TERM"), "the daemon runs");
    assert!(daemon.child.wait().expect("the process exits").success(), "the exit code is 0");
    drop(daemon);
    let daemon = home.serve();
    let restarted = ask(&daemon);
    assert_eq!(restored_tokens(&restarted), prompt - 1, "restored from the disk: {restarted}");
    assert_eq!(restarted["response"], first["response"], "the same answer");
    assert!(restarted["restore_duration"].as_u64() > Some(0), "the restore time is reported: {restarted}");
}

#[test]
fn killed_daemon_restores_flushed_chunks() {
    let home = Home::new().with("CAIRN_KV_WEIGH", "0").with("OLLAMA_KV_TIERING", "1");
    let model = home.folder.path().join("m.gguf");
    cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &model).expect("the home is writable");
    let daemon = home.serve();
    succeeded(&home.run(&["import", &model.to_string_lossy(), "m"]));
    let first = ask(&daemon);
    // A chunk with a second hit is written at once.
    succeeded(&home.run(&["stop", "m"]));
    let again = ask(&daemon);
    assert!(tokens(&again, "ram_tokens") > 0, "the second request hits RAM: {again}");
    let folder = home.folder.path().join("cache/kv").join(cairn_tier::format::VERSION_FOLDER);
    let written = || {
        let files = |folder: std::path::PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let folders = files(folder.clone()).flat_map(|model| files(model.path()));
        folders.flat_map(|folder| files(folder.path())).count()
    };
    let until = Instant::now() + Duration::from_secs(20);
    while written() < 2 {
        assert!(Instant::now() < until, "timeout: fewer than 2 chunks on the disk: {}", daemon.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(kill(daemon.child.id(), "-KILL"), "the daemon runs");
    drop(daemon);
    let daemon = home.serve();
    let restarted = ask(&daemon);
    assert!(restored_tokens(&restarted) > 0, "chunks are restored: {restarted}");
    assert_eq!(restarted["response"], first["response"], "the same answer");
}
