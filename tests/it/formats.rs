//! Compatibility tests: the daemon reads the home folders that earlier versions wrote.
//!
//! `tests/fixtures/home-1` is the home of a daemon of version 0.1.0, without models, logs and run-time files. With
//! `CAIRN_WRITE_HOME=FOLDER` the test of a new home writes another; a release that changes a format adds it, and no fixture is
//! changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cairn_testkit::registry::{FakeRegistry, Faults};
use serde_json::{Value, json};

use crate::cairn::{Daemon, Home, exchange, succeeded};
use crate::pulls::published::{Published, blob, noise};

/// Folders and files of a home that no fixture contains. The test writes the models again.
const LEFT_OUT: [&str; 7] = ["blobs", "manifests", "logs", "run", "state", "serve.log", "tiny.gguf"];
const QUESTION: &str = "Where are my models?";

/// A home with chunks of the cache that are the same on all machines of an architecture.
fn home() -> Home {
    Home::new()
        .with("CAIRN_KERNEL", "scalar")
        .with("OLLAMA_KV_CACHE_TYPE", "q4_0")
        .with("OLLAMA_KV_TIERING", "1")
        .with("CAIRN_KV_WEIGH", "0")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder is writable");
    for entry in fs::read_dir(from).expect("the folder is readable").flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        match path.is_dir() {
            _ if LEFT_OUT.iter().any(|name| entry.file_name() == *name) => {}
            _ if path.extension().is_some_and(|extension| extension == "bak" || extension == "lock") => {}
            true => copy(&path, &to),
            false => drop(fs::copy(&path, &to).expect("the file is readable")),
        }
    }
}

/// Sends a request with the daemon's token, which must succeed.
fn ask(home: &Home, method: &str, path: &str, body: &Value) -> Value {
    let bearer = home.bearer().expect("a running daemon writes its token");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, text) =
        exchange(home.port, method, path, &[("Authorization", &bearer)], &body).expect("the daemon answers");
    assert!((200..300).contains(&status), "{method} {path}: {status} {text}");
    // Streams end with the result.
    text.trim().lines().last().map_or(Value::Null, |line| serde_json::from_str(line).expect("valid JSON"))
}

fn get(home: &Home, path: &str) -> Value {
    ask(home, "GET", path, &Value::Null)
}

/// Imports the model `m`, always from the same file, and generates from a prompt of some hundred tokens.
fn generate(home: &Home) -> Value {
    let file = home.folder.path().join("tiny.gguf");
    if !file.exists() {
        cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &file).expect("the home is writable");
        succeeded(&home.run(&["import", &file.to_string_lossy(), "m"]));
    }
    let prompt = (0..200).map(|word| format!("{} ", word * 7919 % 1000)).collect::<String>();
    let options = json!({"num_predict": 8, "num_ctx": 2048, "temperature": 0});
    ask(
        home,
        "POST",
        "/api/generate",
        &json!({"model": "m", "prompt": prompt, "raw": true, "stream": false, "options": options}),
    )
}

fn stop(home: &Home, mut daemon: Daemon<'_>) {
    succeeded(&home.run(&["stop", "--daemon"]));
    assert!(daemon.child.wait().expect("the process exits").success(), "the exit code is 0");
}

/// Pauses a pull in the middle of a blob.
fn pause_pull(home: &Home, registry: &FakeRegistry) {
    let model =
        Published::at(registry, "paused", vec![blob("projector", noise(1, 1 << 20)), blob("config", b"{}".as_slice())]);
    ask(home, "POST", "/app/downloads", &json!({"model": model.name, "insecure": true}));
    let deadline = Instant::now() + Duration::from_secs(60);
    while get(home, "/app/downloads")["downloads"][0]["completed"].as_u64() < Some(64 << 10) {
        assert!(Instant::now() < deadline, "the pull does not begin: {}", get(home, "/app/downloads"));
        std::thread::sleep(Duration::from_millis(20));
    }
    ask(home, "POST", "/app/downloads/pause", &json!({"download": "1"}));
}

/// Fills a home with a file of each format and copies it to a folder.
fn write_home(fixture: &Path) {
    let registry = FakeRegistry::start(1, Faults { bytes_per_second: Some(50_000), ..Faults::default() })
        .expect("loopback has free ports");
    let home = home();
    let daemon = home.serve();
    ask(&home, "PATCH", "/app/settings", &json!({"ui.language": "zh-CN"}));
    let key = ask(&home, "POST", "/app/keys", &json!({"name": "grafana", "scopes": ["metrics"]}))["key"].clone();
    let login = ["login", &*format!("http://{}", registry.host()), "--username", "u"];
    succeeded(&home.run_with_input(&login, "password"));
    pause_pull(&home, &registry);
    let invited = get(&home, "/app/mirror");
    let chat = ask(&home, "POST", "/app/chats", &json!({"model": "pebble", "title": "Kept", "folder": "Work"}));
    let chat = chat["id"].as_str().expect("an id").to_owned();
    let answer = ask(&home, "POST", &format!("/app/chats/{chat}/messages"), &json!({"content": QUESTION}));
    ask(&home, "PUT", "/app/presets/short", &json!({"name": "short", "system": "Be brief.", "options": {}}));
    let generated = generate(&home);
    stop(&home, daemon);
    copy(home.folder.path(), fixture);
    let expected = json!({
        "key": key, "chat": chat, "answer": answer["done"]["content"], "generated": generated["response"],
        "fingerprint": invited["fingerprint"],
    });
    fs::write(fixture.join("expected.json"), format!("{expected:#}\n")).expect("the fixture is writable");
}

/// Starts a daemon on a copy of a home and checks that all its data is read.
fn check_home(fixture: &Path) {
    let expected = fs::read(fixture.join("expected.json")).expect("the fixture exists");
    let expected: Value = serde_json::from_slice(&expected).expect("valid JSON");
    let home = home();
    copy(fixture, home.folder.path());
    let daemon = home.serve();
    let settings = get(&home, "/app/settings");
    let language = settings["settings"].as_array().and_then(|all| all.iter().find(|row| row["key"] == "ui.language"));
    assert_eq!(language.map(|row| &row["value"]), Some(&json!("zh-CN")), "config.toml: {settings}");

    let bearer = format!("Bearer {}", expected["key"].as_str().expect("a key"));
    let metrics = exchange(home.port, "GET", "/metrics", &[("Authorization", &bearer)], "");
    assert_eq!(metrics.map(|(status, _)| status), Some(200), "api-keys.json");
    let logins: Value = serde_json::from_str(&succeeded(&home.run(&["login", "--json"]))).expect("valid JSON");
    assert_eq!(logins["logins"][0]["user"], "u", "logins.json: {logins}");
    assert_eq!(get(&home, "/app/mirror")["fingerprint"], expected["fingerprint"], "the key of the mirror");

    let downloads = get(&home, "/app/downloads");
    let paused = &downloads["downloads"][0];
    assert_eq!(paused["state"], "paused", "the journal of downloads: {downloads}");
    assert!(paused["completed"].as_u64() >= Some(64 << 10), "the partial blob is kept: {downloads}");

    let chats = get(&home, "/app/chats");
    assert_eq!(chats["chats"][0]["title"], "Kept", "the database of chats: {chats}");
    let chat = expected["chat"].as_str().expect("an id");
    let messages = get(&home, &format!("/app/chats/{chat}/messages"));
    let texts: Vec<&Value> =
        messages["messages"].as_array().expect("a list").iter().map(|row| &row["content"]).collect();
    assert_eq!(texts, [&json!(QUESTION), &expected["answer"]], "its messages");
    let hits = get(&home, "/app/chats/search?q=models");
    assert!(hits["hits"].as_array().is_some_and(|hits| !hits.is_empty()), "its search index: {hits}");
    assert_eq!(get(&home, "/app/presets/short")["system"], "Be brief.", "its presets");

    let contexts = get(&home, "/app/cache/contexts");
    assert_eq!(contexts["contexts"][0]["model"], "m:latest", "the index of the cache: {contexts}");
    let generated = generate(&home);
    // Rows of another architecture may differ in the last bit, so they are not used.
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        assert!(
            generated["ssd_tokens"].as_u64().unwrap_or(0) + generated["ram_tokens"].as_u64().unwrap_or(0) > 256,
            "{generated}"
        );
        assert_eq!(generated["response"], expected["generated"], "the rows of the cache");
    }
    stop(&home, daemon);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a developer states where a new fixture is written")]
fn daemon_reads_home_of_current_version() {
    let temporary = tempfile::tempdir().expect("a temporary folder can be made");
    let folder = std::env::var_os("CAIRN_WRITE_HOME").map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    write_home(&folder);
    check_home(&folder);
}

#[test]
fn daemon_reads_home_of_version_0_1() {
    check_home(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/home-1"));
}
