//! Ownership of cached prefixes: owners can delete them, API keys do not share them, incognito requests leave none, and
//! `cache trace` explains a miss.

use std::path::Path;

use serde_json::{Value, json};

use crate::cairn::{Daemon, Home, exchange, kill, refused, send, succeeded};

/// Context length of these tests, in tokens.
const CONTEXT: u32 = 2048;

/// A home with a model `m`, and the folder of the SSD tier.
struct CacheHome {
    home: Home,
    folder: std::path::PathBuf,
}

impl CacheHome {
    fn new() -> Self {
        let home = Home::new();
        let folder = home.folder.path().join("tier");
        let home = tiered(home).with("OLLAMA_KV_TIER_LOCAL", folder.to_string_lossy());
        Self { home, folder }
    }

    fn serve(&self) -> Daemon<'_> {
        let daemon = self.home.serve();
        let model = self.home.folder.path().join("m.gguf");
        if !model.exists() {
            cairn_testkit::write_file(&cairn_testkit::tiny_llama(), &model).expect("the home is writable");
            succeeded(&self.home.run(&["import", &model.to_string_lossy(), "m"]));
        }
        daemon
    }

    /// Sends a raw prompt with these headers and returns the response.
    fn ask(&self, prompt: &str, headers: &[(&str, &str)]) -> Value {
        let options = json!({"num_predict": 4, "num_ctx": CONTEXT, "temperature": 0});
        let body = json!({"model": "m", "prompt": prompt, "raw": true, "stream": false, "options": options});
        let (status, answer) = self.request("POST", "/api/generate", headers, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Sends a request with the daemon token.
    fn own(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let bearer = self.home.bearer().expect("the daemon wrote its file");
        self.request(method, path, &[("Authorization", &bearer)], body)
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
        let answer = exchange(self.home.port, method, path, headers, body);
        let (status, body) = answer.expect("the daemon answers");
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// Returns the first line of the event stream.
    fn first_event(&self) -> Value {
        let bearer = self.home.bearer().expect("the daemon wrote its file");
        let headers = [("Authorization", bearer.as_str())];
        let stream = send(self.home.port, "GET", "/app/cache/events", &headers, "").expect("the daemon listens");
        let lines = std::io::BufRead::lines(std::io::BufReader::new(stream));
        let line = lines.map_while(Result::ok).find(|line| line.starts_with('{')).expect("the stream has a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn cache(&self, words: &[&str]) -> String {
        succeeded(&self.home.run(&[&["cache"], words].concat()))
    }

    fn contexts(&self) -> Vec<Value> {
        let listed: Value = serde_json::from_str(&self.cache(&["top", "--json"])).expect("valid JSON");
        listed["contexts"].as_array().expect("a list").clone()
    }

    /// Unloads the model, which flushes its KV chunks to the tiers.
    fn unload(&self) {
        succeeded(&self.home.run(&["stop", "m"]));
    }
}

/// Enables the tiers for every prefix, even where recomputing a model this small is as fast as restoring.
fn tiered(home: Home) -> Home {
    home.with("OLLAMA_KV_TIERING", "1").with("CAIRN_KV_WEIGH", "0")
}

/// Returns `count` words that differ by `seed`.
fn words(seed: u64, count: u64) -> String {
    (0..count).map(|word| format!("{} ", (word + 1000 * seed) * 7919 % 100_003)).collect()
}

fn count(answer: &Value, field: &str) -> u64 {
    answer[field].as_u64().unwrap_or_default()
}

/// Returns the number of chunk files below a folder.
fn chunks(folder: &Path) -> usize {
    cairn_testkit::chunk_files(folder).len()
}

#[test]
fn owner_deletion_keeps_chunks_shared_with_another_owner() {
    let place = CacheHome::new();
    let _daemon = place.serve();
    let shared = words(0, 120);
    let (ann, bob) = (format!("{shared}{}", words(1, 60)), format!("{shared}{}", words(2, 60)));
    let all = count(&place.ask(&ann, &[("X-Cairn-Owner", "ann")]), "prompt_eval_count");
    let begins = count(&place.ask(&bob, &[("X-Cairn-Owner", "bob")]), "cached_tokens");
    assert!(begins > 256 && begins < all, "the prompts share more than a chunk: {begins} of {all}");

    succeeded(&place.home.run(&["cache", "drop", "--owner", "ann"]));
    assert!(
        count(&place.ask(&bob, &[("X-Cairn-Owner", "bob")]), "cached_tokens") > begins,
        "bob's rows are still in memory"
    );
    assert!(count(&place.ask(&ann, &[("X-Cairn-Owner", "ann")]), "cached_tokens") <= begins, "ann's rows are not");

    place.unload();
    place.ask("1 2 3", &[]);
    let owners: Vec<String> = place.contexts().iter().map(|context| context["owners"].to_string()).collect();
    assert!(owners.iter().any(|owners| owners.contains("ann")), "her rows were flushed again: {owners:?}");
    let (status, deleted) = place.own("DELETE", "/app/cache/owner", r#"{"owner":"ann"}"#);
    assert_eq!((status, count(&deleted, "left")), (200, 0), "{deleted}");
    let owners: Vec<String> = place.contexts().iter().map(|context| context["owners"].to_string()).collect();
    assert!(!owners.iter().any(|owners| owners.contains("ann")), "she owns nothing: {owners:?}");
    let answer = place.ask(&ann, &[]);
    assert!(count(&answer, "cached_tokens") <= begins, "rows that only ann owned are recomputed: {answer}");
    let answer = place.ask(&bob, &[]);
    assert!(count(&answer, "cached_tokens") > begins, "bob's rows are still cached: {answer}");
}

#[test]
fn cache_status_has_the_hours_of_prompts_and_why_they_were_computed() {
    let place = CacheHome::new();
    let _daemon = place.serve();
    let prompt = words(7, 200);
    place.ask(&prompt, &[]);
    place.ask(&prompt, &[]);
    let (_, status) = place.own("GET", "/app/cache", "");
    let sum = |names: &[&str]| -> u64 {
        let hours = status["hours"].as_array().expect("there were prompts");
        hours.iter().map(|hour| names.iter().map(|name| count(hour, name)).sum::<u64>()).sum()
    };
    let found = sum(&["memory_tokens", "ram_tokens", "ssd_tokens", "remote_tokens"]);
    assert_eq!(found, count(&status, "cached_tokens"), "{status}");
    assert_eq!(found + sum(&["computed_tokens"]), count(&status, "prompt_tokens"), "{status}");
    assert!(found > 100, "the second prompt was found: {status}");
    let miss = status["recomputed"].as_array().expect("reasons").iter().find(|one| one["reason"] == "miss");
    assert!(count(miss.expect("the first prompt was new"), "tokens") > 100, "{status}");
}

#[test]
fn incognito_request_leaves_no_cached_rows() {
    let place = CacheHome::new();
    let _daemon = place.serve();
    let prompt = words(3, 200);
    let secret = [("X-Cairn-Incognito", "1")];
    for round in 0..2 {
        let answer = place.ask(&prompt, &secret);
        assert_eq!(count(&answer, "cached_tokens"), 0, "round {round}: {answer}");
    }
    place.unload();
    place.ask("1 2 3", &secret);
    assert!(place.contexts().is_empty(), "{:?}", place.contexts());
    assert_eq!(count(&place.ask(&prompt, &[]), "cached_tokens"), 0, "no later request hits it");
    place.unload();
    let answer = place.ask(&prompt, &secret);
    assert!(count(&answer, "cached_tokens") > 256, "an incognito request can hit rows of others: {answer}");
}

#[test]
fn api_keys_do_not_share_cached_prefixes() {
    let home = Home::new();
    let reachable = format!("0.0.0.0:{}", home.port);
    let folder = home.folder.path().join("tier");
    let place = CacheHome { home: tiered(home).with("OLLAMA_HOST", reachable), folder };
    let _daemon = place.serve();
    let prompt = words(4, 200);
    let cached = |key: &str| {
        let bearer = format!("Bearer {key}");
        let headers = [("Authorization", bearer.as_str())];
        count(&place.ask(&prompt, if key.is_empty() { &[] } else { &headers }), "cached_tokens")
    };
    assert_eq!(cached("ann"), 0, "first request");
    assert_eq!(cached("bob"), 0, "another key");
    assert!(cached("ann") > 256, "the same key hits memory");
    place.unload();
    assert_eq!(cached("eve"), 0, "another key misses the tiers");
    assert_eq!(cached(""), 0, "a local client without a key misses too");
    assert!(cached("ann") > 256, "the same key hits the tiers");
}

#[test]
fn api_keys_do_not_share_cached_prefixes_after_a_restart() {
    let place = CacheHome::new();
    let mut daemon = place.serve();
    let key = |name: &str| succeeded(&place.home.run(&["key", "create", name])).trim().to_owned();
    let (ann, bob) = (key("ann"), key("bob"));
    let prompt = words(8, 300);
    let cached = |key: &str| {
        let headers = [("x-api-key", key)];
        count(&place.ask(&prompt, if key.is_empty() { &[] } else { &headers }), "cached_tokens")
    };
    assert_eq!(cached(&ann), 0, "first request");
    let whole = cached(&ann);
    assert!(whole > 512, "all but the last token: {whole}");
    assert_eq!((cached(&bob), cached("")), (0, 0), "another key, and no key");
    assert_eq!(cached("any text"), whole, "a text that is no key uses the scope of local programs");
    assert!(kill(daemon.child.id(), "-TERM"), "the daemon runs");
    assert!(daemon.child.wait().expect("the process exits").success(), "the exit code is 0");
    drop(daemon);

    let _daemon = place.serve();
    let eve = key("eve");
    assert_eq!(cached(&eve), 0, "a new key misses the tiers");
    assert_eq!(cached(&ann), whole, "the same key hits the tiers");
    assert_eq!(cached(&bob), whole, "so does the other key, in its own scope");
    succeeded(&place.home.run(&["key", "revoke", "ann"]));
    let again = key("ann");
    assert_eq!(cached(&again), 0, "a new key with an old name has a scope of its own");
}

#[test]
fn cache_clear_leaves_an_empty_folder() {
    let place = CacheHome::new();
    let mut daemon = place.serve();
    let prompt = words(5, 300);
    let all = count(&place.ask(&prompt, &[]), "prompt_eval_count");
    assert!(all > 512, "the prompt is long enough to be flushed: {all}");
    assert!(kill(daemon.child.id(), "-TERM"), "the daemon runs");
    assert!(daemon.child.wait().expect("the process exits").success(), "the exit code is 0");
    drop(daemon);
    assert!(chunks(&place.folder) > 1, "chunks were flushed");
    let fsck: Value = serde_json::from_str(&place.cache(&["fsck", "--json"])).expect("valid JSON");
    assert_eq!(count(&fsck, "whole"), chunks(&place.folder) as u64, "without a daemon: {fsck}");

    let _daemon = place.serve();
    let again = place.ask(&prompt, &[]);
    // Some chunks may have been prefetched to RAM while the model was loaded.
    assert_eq!(count(&again, "ssd_tokens") + count(&again, "ram_tokens"), all - 1, "restored from the disk: {again}");
    let fsck = place.cache(&["fsck"]);
    assert!(fsck.contains(&format!("{} whole chunks", chunks(&place.folder))), "with a daemon: {fsck}");
    let status = place.cache(&["status"]);
    assert!(status.contains("RAM") && status.contains("SSD") && status.contains('['), "{status}");

    let deleted = place.cache(&["clear", "--yes"]);
    assert!(deleted.starts_with("deleted"), "{deleted}");
    assert_eq!(chunks(&place.folder), 0, "the files are deleted before the response");
    assert!(place.contexts().is_empty(), "nothing is listed");
    let answer = place.ask(&prompt, &[]);
    assert_eq!(count(&answer, "cached_tokens"), 0, "nothing is cached: {answer}");
}

#[test]
fn cache_trace_names_the_changed_token() {
    let place = CacheHome::new();
    let _daemon = place.serve();
    let (head, tail) = (words(6, 150), words(7, 40));
    let prompt = format!("{head}left {tail}");
    place.ask(&prompt, &[]);
    let other = format!("{head}right {tail}");
    for location in ["memory", "tiers"] {
        let whole = place.cache(&["trace", "m", "--raw", &prompt]);
        assert!(whole.contains("all of it is there"), "{location}: {whole}");
        let traced: Value =
            serde_json::from_str(&place.cache(&["trace", "m", "--raw", "--json", &other])).expect("JSON");
        assert_eq!(traced["reason"], "changed", "{location}: {traced}");
        let (at, have) = (count(&traced, "changed_at"), count(&traced, &format!("{}_tokens", kind(location))));
        assert_eq!(at, have, "cached up to the change: {traced}");
        let stdout = place.cache(&["trace", "m", "--raw", &other]);
        let (cached, requested) = (&traced["kept_text"], &traced["asked_text"]);
        assert!(stdout.contains(&format!("changed at token {at}: cached {cached}, requested {requested}")), "{stdout}");
        assert_ne!(cached, requested, "{traced}");
        place.unload();
    }
    let piped = place.home.run_with_input(&["cache", "trace", "m", "--raw"], &prompt);
    assert!(
        succeeded(&piped).contains("changed at token") || succeeded(&piped).contains("all of it"),
        "a prompt may be piped"
    );
    let messages = json!([{"role": "user", "content": "hello"}]).to_string();
    let chat = place.home.run_with_input(&["cache", "trace", "m", "--chat"], &messages);
    assert!(succeeded(&chat).contains("prompt tokens"), "messages may be piped too");
    refused(&place.home.run_with_input(&["cache", "trace", "m", "--chat"], "hello"), "neither a list of messages");
}

fn kind(location: &str) -> &'static str {
    if location == "memory" { "memory" } else { "kept" }
}

#[test]
fn contexts_are_pinned_and_dropped_by_id() {
    let place = CacheHome::new();
    let _daemon = place.serve();
    place.ask(&words(8, 200), &[("X-Cairn-Owner", "chat-12")]);
    place.unload();
    place.ask("1 2 3", &[]);
    let context = place
        .contexts()
        .into_iter()
        .find(|context| context["owners"] == json!(["chat-12"]))
        .expect("the context is cached");
    let id = context["id"].as_str().expect("a context has an id");
    let first = place.first_event();
    let tiers: Vec<&Value> = first["tiers"].as_array().expect("a list").iter().map(|tier| &tier["tier"]).collect();
    assert_eq!(tiers, ["ram", "ssd"], "the first event has the current state: {first}");
    assert_eq!(context["model"], "m:latest", "the model's name: {context}");
    assert!(count(&context, "ram_bytes") > 0 && count(&context, "tokens") > 256, "{context}");
    place.cache(&["pin", &id[..6]]);
    assert!(place.contexts().iter().any(|context| context["pinned"] == true), "a prefix of the id is enough");
    place.cache(&["unpin", id]);
    let (status, response) = place.own("POST", "/app/cache/prefetch", r#"{"owner":"chat-12"}"#);
    assert_eq!((status, count(&response, "contexts")), (202, 1), "{response}");
    let (status, response) = place.own("POST", "/app/cache/prefetch", r#"{"owner":"chat-13"}"#);
    assert_eq!((status, count(&response, "contexts")), (202, 0), "{response}");
    place.cache(&["drop", id]);
    refused(&place.home.run(&["cache", "drop", id]), "no cached context has the id");
    assert!(place.contexts().iter().all(|context| context["id"] != id), "the context is deleted");
}

#[test]
fn invalid_cache_requests_are_refused_without_effect() {
    let place = CacheHome::new();
    let mut daemon = place.serve();
    let long = "x".repeat(129);
    let body = json!({"model": "m", "prompt": "1", "raw": true, "stream": false}).to_string();
    for headers in [
        [("X-Cairn-Owner", long.as_str())],
        [("X-Cairn-Owner", "two words")],
        [("X-Cairn-Owner", "")],
        [("X-Cairn-Incognito", "perhaps")],
    ] {
        let (status, answer) = place.request("POST", "/api/generate", &headers, &body);
        assert_eq!(status, 400, "{headers:?}: {answer}");
        assert!(
            answer["error"].as_str().is_some_and(|error| error.contains(headers[0].0)),
            "the error names the header: {answer}"
        );
    }
    let check = |method: &str, path: &str, body: &str, expected: u16| {
        let (status, answer) = place.own(method, path, body);
        assert_eq!(status, expected, "{method} {path} {body}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|error| !error.is_empty()), "the error has a text: {answer}");
    };
    let limits = "/app/cache/limits";
    for body in ["", "{", "7", r#"{"ram_bytes":-1}"#, r#"{"ram_bytes":1e300}"#, r#"{"ram_bites":1}"#] {
        check("PUT", limits, body, 400);
    }
    for bytes in ["1", "18446744073709551615"] {
        check("PUT", limits, &format!(r#"{{"ram_bytes":{bytes}}}"#), 400);
        check("PUT", limits, &format!(r#"{{"folder_bytes":{bytes}}}"#), 400);
    }
    // The environment sets the folder.
    check("PUT", limits, r#"{"folder":"/tmp/kv"}"#, 409);
    for (method, path, body) in [
        ("POST", "/app/cache/pin", r#"{"context":"ffffffffffff"}"#),
        ("POST", "/app/cache/drop", r#"{"context":"f"}"#),
        ("POST", "/app/cache/drop", r#"{"context":"../../../etc"}"#),
    ] {
        check(method, path, body, 404);
    }
    check("DELETE", "/app/cache/owner", &format!(r#"{{"owner":"{long}"}}"#), 400);
    check("POST", "/app/cache/clear", r#"{"tier":"floppy"}"#, 400);
    check("POST", "/app/cache/trace", r#"{"model":"m","messages":[]}"#, 400);
    check("POST", "/app/cache/trace", r#"{"model":"missing","messages":[{"role":"user","content":"x"}]}"#, 404);
    let (status, _) = place.request("GET", "/app/cache", &[], "");
    assert_eq!(status, 401, "the daemon token is required");

    let (status, now) = place.own("PUT", limits, r#"{"ram_bytes":100000000,"folder_bytes":200000000}"#);
    assert_eq!((status, &now["ram_bytes"]["value"]), (200, &json!(100_000_000)), "{now}");
    assert!(kill(daemon.child.id(), "-TERM"), "the daemon runs");
    daemon.child.wait().expect("the process exits");
    drop(daemon);
    let _daemon = place.serve();
    let (_, status) = place.own("GET", "/app/cache", "");
    let budgets: Vec<u64> =
        status["tiers"].as_array().expect("a list").iter().map(|tier| count(tier, "budget_bytes")).collect();
    assert_eq!(budgets, [100_000_000, 200_000_000], "budgets survive a restart: {status}");

    let home = tiered(Home::new());
    let place = CacheHome { folder: home.folder.path().join("elsewhere"), home };
    let _daemon = place.serve();
    for folder in ["kv", "/tmp/../etc/kv", "/", "/proc/kv", ""] {
        check_folder(&place, folder, 400);
    }
    let library = place.home.folder.path().join("models/kv");
    check_folder(&place, &library.to_string_lossy(), 400);
    assert!(!library.exists(), "no folder is created in a library");
    check_folder(&place, &place.folder.to_string_lossy(), 200);
}

fn check_folder(place: &CacheHome, folder: &str, expected: u16) {
    let (status, answer) = place.own("PUT", "/app/cache/limits", &json!({"folder": folder}).to_string());
    assert_eq!(status, expected, "{folder:?}: {answer}");
}
