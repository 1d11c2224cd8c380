//! Deleted chats leave no chunks, and usage counters match the responses.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::tokens;
use crate::cairn::{Daemon, Home, exchange, kill, send, succeeded};

/// Sends a request with the daemon token.
pub(super) fn own(home: &Home, method: &str, path: &str, body: &Value) -> Value {
    let bearer = home.bearer().expect("the daemon wrote its file");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, text) = exchange(home.port, method, path, &[("Authorization", &bearer)], &body)
        .unwrap_or_else(|| panic!("{method} {path}: no response"));
    assert!((200..300).contains(&status), "{method} {path}: {status} {text}");
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

/// Returns a home with an SSD tier that stores every prefix, and the tier's folder.
pub(super) fn tiered_home(name: &str, spec: &cairn_testkit::ModelSpec) -> (Home, std::path::PathBuf) {
    let home = Home::new().with("CAIRN_KV_WEIGH", "0").with("OLLAMA_KV_TIERING", "1").with("CAIRN_CHAT_TITLES", "0");
    let folder = home.folder.path().join(name);
    let home = home.with("OLLAMA_KV_TIER_LOCAL", folder.to_string_lossy());
    let model = home.folder.path().join("m.gguf");
    cairn_testkit::write_file(spec, &model).expect("the home is writable");
    let daemon = home.serve();
    succeeded(&home.run(&["import", &model.to_string_lossy(), "m"]));
    drop(daemon);
    (home, folder)
}

/// Returns `count` words that differ by `seed`.
pub(super) fn words(seed: u64, count: u64) -> String {
    (0..count).map(|word| format!("{} ", (word + 1000 * seed) * 7919 % 100_003)).collect()
}

/// Shuts a daemon down, which flushes its chunks.
pub(super) fn shut_down(mut daemon: Daemon<'_>) {
    assert!(kill(daemon.child.id(), "-TERM"), "the daemon runs");
    assert!(daemon.child.wait().expect("the process exits").success(), "the exit code is 0: {}", daemon.log());
}

#[test]
fn chat_deleted_while_answering_leaves_no_chunks() {
    let (home, folder) = tiered_home("tier", &cairn_testkit::slow_llama());
    let daemon = home.serve();
    for seed in 0..3 {
        let chat = own(&home, "POST", "/app/chats", &json!({"model": "m"}))["id"].clone();
        let chat = chat.as_str().expect("a chat has an id");
        let options = json!({"temperature": 0, "num_predict": 100_000, "num_ctx": 4096});
        let body = json!({"content": words(seed, 250), "options": options}).to_string();
        let bearer = home.bearer().expect("the daemon wrote its file");
        let path = format!("/app/chats/{chat}/messages");
        let stream = send(home.port, "POST", &path, &[("Authorization", &bearer)], &body).expect("the daemon answers");
        let lines = std::io::BufRead::lines(std::io::BufReader::new(stream)).map_while(Result::ok);
        let started =
            lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok()).any(|line| line["text"].is_string());
        assert!(started, "the answer starts");
        own(&home, "DELETE", &format!("/app/chats/{chat}?forever=true"), &Value::Null);
    }
    // Unloading flushes the rest.
    succeeded(&home.run(&["stop", "m"]));
    std::thread::sleep(Duration::from_secs(1));
    let contexts = own(&home, "GET", "/app/cache/contexts", &Value::Null);
    assert_eq!(contexts["contexts"], json!([]), "no context of the deleted chats");
    shut_down(daemon);
    assert_eq!(cairn_testkit::chunk_files(&folder).len(), 0, "no chunk files");
}

#[test]
fn chat_deleted_while_tiering_is_off_leaves_no_chunks() {
    let (home, folder) = tiered_home("tier", &cairn_testkit::tiny_llama());
    let daemon = home.serve();
    let chat = own(&home, "POST", "/app/chats", &json!({"model": "m"}))["id"].clone();
    let chat = chat.as_str().expect("a chat has an id").to_owned();
    let options = json!({"temperature": 0, "num_predict": 4});
    own(&home, "POST", &format!("/app/chats/{chat}/messages"), &json!({"content": words(1, 100), "options": options}));
    shut_down(daemon);
    assert!(!cairn_testkit::chunk_files(&folder).is_empty(), "chunks were flushed");
    let home = home.with("OLLAMA_KV_TIERING", "0");
    let daemon = home.serve();
    own(&home, "DELETE", &format!("/app/chats/{chat}?forever=true"), &Value::Null);
    shut_down(daemon);
    let home = home.with("OLLAMA_KV_TIERING", "1");
    let daemon = home.serve();
    // Listing the chats deletes chunks of deleted chats.
    own(&home, "GET", "/app/chats", &Value::Null);
    let until = Instant::now() + Duration::from_secs(20);
    while !cairn_testkit::chunk_files(&folder).is_empty() {
        assert!(Instant::now() < until, "{}", own(&home, "GET", "/app/cache/contexts", &Value::Null));
        std::thread::sleep(Duration::from_millis(50));
    }
    shut_down(daemon);
}

/// Returns the disk usage of all chunk files, in bytes.
#[cfg(unix)]
fn disk_usage(folder: &std::path::Path) -> u64 {
    let blocks =
        |path: &std::path::PathBuf| std::fs::metadata(path).map(|found| std::os::unix::fs::MetadataExt::blocks(&found));
    cairn_testkit::chunk_files(folder).iter().map(|path| blocks(path).unwrap_or(0) * 512).sum()
}

#[cfg(unix)]
#[test]
fn usage_counters_sum_to_total() {
    // A folder name with special characters.
    let (home, folder) = tiered_home(
        "k\u{e9}pt \u{1f5c4} '\"",
        &cairn_testkit::ModelSpec { context: 4096, ..cairn_testkit::tiny_llama() },
    );
    let daemon = home.serve();
    let ask = |prompt: &str| {
        let options = json!({"num_predict": 4, "num_ctx": 4096, "temperature": 0});
        let body = json!({"model": "m", "prompt": prompt, "raw": true, "stream": false, "options": options});
        let answer = daemon.post("/api/generate", &body).expect("the daemon answers");
        let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        let parts = ["ram_tokens", "ssd_tokens", "remote_tokens"].map(|part| tokens(&answer, part)).iter().sum::<u64>();
        assert!(parts <= tokens(&answer, "cached_tokens"), "restored tokens count as cached: {answer}");
        assert!(
            tokens(&answer, "cached_tokens") < tokens(&answer, "prompt_eval_count"),
            "at least one token is computed: {answer}"
        );
        answer
    };
    let prompts: Vec<String> = (0..4).map(|seed| words(seed, 200)).collect();
    let edited = format!("{} and another end", &prompts[0][..900]);
    let mut expected = (0, 0);
    for round in 0..3 {
        for prompt in prompts.iter().chain([&edited]) {
            let answer = ask(prompt);
            expected =
                (expected.0 + tokens(&answer, "prompt_eval_count"), expected.1 + tokens(&answer, "cached_tokens"));
        }
        if round == 1 {
            succeeded(&home.run(&["stop", "m"]));
        }
    }
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let status = own(&home, "GET", "/app/cache", &Value::Null);
        let ssd = status["tiers"].as_array().and_then(|tiers| tiers.iter().find(|tier| tier["tier"] == "ssd")).cloned();
        let ssd = ssd.expect("the SSD tier is listed");
        let (used, chunks) = (tokens(&ssd, "used_bytes"), cairn_testkit::chunk_files(&folder).len() as u64);
        if tokens(&ssd, "queued_bytes") == 0
            && chunks > 0
            && used == disk_usage(&folder)
            && tokens(&ssd, "chunks") == chunks
        {
            assert_eq!(
                (tokens(&status, "prompt_tokens"), tokens(&status, "cached_tokens")),
                expected,
                "the sums of all responses"
            );
            break;
        }
        assert!(
            Instant::now() < until,
            "timeout: {used} bytes reported, {} bytes on the disk: {status}",
            disk_usage(&folder)
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    let bearer = home.bearer().expect("the daemon wrote its file");
    let (_, metrics) =
        exchange(home.port, "GET", "/metrics", &[("Authorization", &bearer)], "").expect("the daemon answers");
    let sum = |name: &str| {
        let lines = metrics.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
    };
    let found = sum("kvtier_page_tokens_total") + sum("kvtier_hit_tokens_total");
    assert_eq!((sum("kvtier_lookup_tokens_total"), found), expected, "metrics match");
    let requests = 15;
    assert_eq!(
        sum("kvtier_recomputed_tokens_total") + found + requests,
        expected.0,
        "each token was a hit or was recomputed for a reason"
    );
    shut_down(daemon);
}

#[test]
fn disabled_tiering_creates_no_folder() {
    for word in ["off", "no", "0"] {
        let home = Home::new().with("OLLAMA_KV_TIERING", word).with("CAIRN_KV_WEIGH", "0");
        let folder = home.folder.path().join("tier");
        let home = home.with("OLLAMA_KV_TIER_LOCAL", folder.to_string_lossy());
        let daemon = home.serve();
        let status = own(&home, "GET", "/app/cache", &Value::Null);
        let tiers: Vec<&Value> = status["tiers"].as_array().expect("a list").iter().map(|tier| &tier["tier"]).collect();
        assert_eq!(tiers, ["ram"], "{word}: {status}");
        shut_down(daemon);
        assert!(!folder.exists(), "{word}: no folder is created");
    }
}
