//! What is kept of prompts belongs to whom it belongs: owners can have it deleted, nobody finds another's, an incognito request
//! leaves nothing, and a prompt that was computed again says why.

use std::path::Path;

use serde_json::{Value, json};

use crate::cairn::{Daemon, Home, exchange, kill, refused, send, succeeded};

/// Tokens of a context in these journeys.
const CONTEXT: u32 = 2048;

/// A home with a model `m`, and a folder for what is kept.
struct Place {
    home: Home,
    folder: std::path::PathBuf,
}

impl Place {
    fn new() -> Self {
        let home = Home::new();
        let folder = home.folder.path().join("kept");
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

    /// Asks for a prompt as it is, with these headers, and returns the last message.
    fn ask(&self, prompt: &str, headers: &[(&str, &str)]) -> Value {
        let options = json!({"num_predict": 4, "num_ctx": CONTEXT, "temperature": 0});
        let body = json!({"model": "m", "prompt": prompt, "raw": true, "stream": false, "options": options});
        let (status, answer) = self.request("POST", "/api/generate", headers, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Asks what only our own clients may.
    fn own(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let bearer = self.home.bearer().expect("the daemon has written it");
        self.request(method, path, &[("Authorization", &bearer)], body)
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
        let answer = exchange(self.home.port, method, path, headers, body);
        let (status, body) = answer.expect("the daemon answers");
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// The first line of the stream of events.
    fn first_event(&self) -> Value {
        let bearer = self.home.bearer().expect("the daemon has written it");
        let headers = [("Authorization", bearer.as_str())];
        let stream = send(self.home.port, "GET", "/app/cache/events", &headers, "").expect("the daemon listens");
        let lines = std::io::BufRead::lines(std::io::BufReader::new(stream));
        let line = lines.map_while(Result::ok).find(|line| line.starts_with('{')).expect("a line comes");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn cache(&self, words: &[&str]) -> String {
        succeeded(&self.home.run(&[&["cache"], words].concat()))
    }

    fn contexts(&self) -> Vec<Value> {
        let listed: Value = serde_json::from_str(&self.cache(&["top", "--json"])).expect("it is JSON");
        listed["contexts"].as_array().expect("a list").clone()
    }

    /// Takes the model out of memory; what it had computed goes to the tiers.
    fn unload(&self) {
        succeeded(&self.home.run(&["stop", "m"]));
    }
}

/// With tiers, also for a model so small that computing is about as quick as they are.
fn tiered(home: Home) -> Home {
    home.with("OLLAMA_KV_TIERING", "1").with("CAIRN_KV_WEIGH", "0")
}

/// Some hundred words, of which every `seed` has others.
fn words(seed: u64, count: u64) -> String {
    (0..count).map(|word| format!("{} ", (word + 1000 * seed) * 7919 % 100_003)).collect()
}

fn count(answer: &Value, field: &str) -> u64 {
    answer[field].as_u64().unwrap_or_default()
}

/// Files of chunks below a folder.
fn chunks(folder: &Path) -> usize {
    cairn_testkit::chunk_files(folder).len()
}

#[test]
fn what_an_owner_deletes_is_gone_but_for_what_another_shares() {
    let place = Place::new();
    let _daemon = place.serve();
    let shared = words(0, 120);
    let (ann, bob) = (format!("{shared}{}", words(1, 60)), format!("{shared}{}", words(2, 60)));
    let all = count(&place.ask(&ann, &[("X-Cairn-Owner", "ann")]), "prompt_eval_count");
    let begins = count(&place.ask(&bob, &[("X-Cairn-Owner", "bob")]), "cached_tokens");
    assert!(begins > 256 && begins < all, "the two share more than a chunk: {begins} of {all}");

    succeeded(&place.home.run(&["cache", "drop", "--owner", "ann"]));
    assert!(count(&place.ask(&bob, &[("X-Cairn-Owner", "bob")]), "cached_tokens") > begins, "his is in memory");
    assert!(count(&place.ask(&ann, &[("X-Cairn-Owner", "ann")]), "cached_tokens") <= begins, "hers is not");

    place.unload();
    place.ask("1 2 3", &[]);
    let owners: Vec<String> = place.contexts().iter().map(|context| context["owners"].to_string()).collect();
    assert!(owners.iter().any(|owners| owners.contains("ann")), "it has been kept since: {owners:?}");
    let (status, deleted) = place.own("DELETE", "/app/cache/owner", r#"{"owner":"ann"}"#);
    assert_eq!((status, count(&deleted, "left")), (200, 0), "{deleted}");
    let owners: Vec<String> = place.contexts().iter().map(|context| context["owners"].to_string()).collect();
    assert!(!owners.iter().any(|owners| owners.contains("ann")), "nothing is hers any more: {owners:?}");
    let hers = place.ask(&ann, &[]);
    assert!(count(&hers, "cached_tokens") <= begins, "what is only hers must be computed again: {hers}");
    let his = place.ask(&bob, &[]);
    assert!(count(&his, "cached_tokens") > begins, "his is still kept: {his}");
}

#[test]
fn an_incognito_request_leaves_nothing() {
    let place = Place::new();
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
    assert_eq!(count(&place.ask(&prompt, &[]), "cached_tokens"), 0, "nor does anybody find it");
    place.unload();
    let found = place.ask(&prompt, &secret);
    assert!(count(&found, "cached_tokens") > 256, "it finds what others left: {found}");
}

#[test]
fn two_keys_find_nothing_of_each_other() {
    let home = Home::new();
    let reachable = format!("0.0.0.0:{}", home.port);
    let folder = home.folder.path().join("kept");
    let place = Place { home: tiered(home).with("OLLAMA_HOST", reachable), folder };
    let _daemon = place.serve();
    let prompt = words(4, 200);
    let cached = |key: &str| {
        let bearer = format!("Bearer {key}");
        let headers = [("Authorization", bearer.as_str())];
        count(&place.ask(&prompt, if key.is_empty() { &[] } else { &headers }), "cached_tokens")
    };
    assert_eq!(cached("ann"), 0, "nobody has asked it");
    assert_eq!(cached("bob"), 0, "not he");
    assert!(cached("ann") > 256, "she has");
    place.unload();
    assert_eq!(cached("eve"), 0, "nor is it found in the tiers");
    assert_eq!(cached(""), 0, "not by a program of this machine either");
    assert!(cached("ann") > 256, "but by her");
}

#[test]
fn clear_leaves_an_empty_folder() {
    let place = Place::new();
    let mut daemon = place.serve();
    let prompt = words(5, 300);
    let all = count(&place.ask(&prompt, &[]), "prompt_eval_count");
    assert!(all > 512, "the prompt is long enough to be written down: {all}");
    assert!(kill(daemon.child.id(), "-TERM"), "the daemon runs");
    assert!(daemon.child.wait().expect("it is ours").success(), "it ends well");
    drop(daemon);
    assert!(chunks(&place.folder) > 1, "it was written down");
    let fsck: Value = serde_json::from_str(&place.cache(&["fsck", "--json"])).expect("it is JSON");
    assert_eq!(count(&fsck, "whole"), chunks(&place.folder) as u64, "without a daemon: {fsck}");

    let _daemon = place.serve();
    let again = place.ask(&prompt, &[]);
    // Some may have been brought up while the model was loaded.
    assert_eq!(count(&again, "ssd_tokens") + count(&again, "ram_tokens"), all - 1, "it comes from the disk: {again}");
    let fsck = place.cache(&["fsck"]);
    assert!(fsck.contains(&format!("{} whole chunks", chunks(&place.folder))), "with a daemon: {fsck}");
    let status = place.cache(&["status"]);
    assert!(status.contains("RAM") && status.contains("SSD") && status.contains('['), "{status}");

    let deleted = place.cache(&["clear", "--yes"]);
    assert!(deleted.starts_with("deleted"), "{deleted}");
    assert_eq!(chunks(&place.folder), 0, "when it is answered, it is gone");
    assert!(place.contexts().is_empty(), "nothing is listed");
    let anew = place.ask(&prompt, &[]);
    assert_eq!(count(&anew, "cached_tokens"), 0, "nor is anything found: {anew}");
}

#[test]
fn a_trace_names_the_token_that_changed() {
    let place = Place::new();
    let _daemon = place.serve();
    let (head, tail) = (words(6, 150), words(7, 40));
    let prompt = format!("{head}left {tail}");
    place.ask(&prompt, &[]);
    let other = format!("{head}right {tail}");
    for where_it_is in ["memory", "tiers"] {
        let whole = place.cache(&["trace", "m", "--raw", &prompt]);
        assert!(whole.contains("all of it is there"), "{where_it_is}: {whole}");
        let traced: Value =
            serde_json::from_str(&place.cache(&["trace", "m", "--raw", "--json", &other])).expect("JSON");
        assert_eq!(traced["reason"], "changed", "{where_it_is}: {traced}");
        let (at, have) = (count(&traced, "changed_at"), count(&traced, &format!("{}_tokens", kind(where_it_is))));
        assert_eq!(at, have, "as far as it is there: {traced}");
        let said = place.cache(&["trace", "m", "--raw", &other]);
        let (kept, asked) = (&traced["kept_text"], &traced["asked_text"]);
        assert!(said.contains(&format!("changed at token {at}: kept {kept}, asked {asked}")), "{said}");
        assert_ne!(kept, asked, "they differ: {traced}");
        place.unload();
    }
    let piped = place.home.run_with_input(&["cache", "trace", "m", "--raw"], &prompt);
    assert!(
        succeeded(&piped).contains("changed at token") || succeeded(&piped).contains("all of it"),
        "a prompt may be piped"
    );
    let messages = json!([{"role": "user", "content": "hello"}]).to_string();
    let chat = place.home.run_with_input(&["cache", "trace", "m", "--chat"], &messages);
    assert!(succeeded(&chat).contains("prompt tokens"), "and so may a conversation");
    refused(&place.home.run_with_input(&["cache", "trace", "m", "--chat"], "hello"), "neither a list of messages");
}

fn kind(where_it_is: &str) -> &'static str {
    if where_it_is == "memory" { "memory" } else { "kept" }
}

#[test]
fn contexts_are_pinned_and_dropped_by_their_ids() {
    let place = Place::new();
    let _daemon = place.serve();
    place.ask(&words(8, 200), &[("X-Cairn-Owner", "chat-12")]);
    place.unload();
    place.ask("1 2 3", &[]);
    let context =
        place.contexts().into_iter().find(|context| context["owners"] == json!(["chat-12"])).expect("it is kept");
    let id = context["id"].as_str().expect("it has one");
    let first = place.first_event();
    let tiers: Vec<&Value> = first["tiers"].as_array().expect("a list").iter().map(|tier| &tier["tier"]).collect();
    assert_eq!(tiers, ["ram", "ssd"], "whoever listens hears at once how it is: {first}");
    assert_eq!(context["model"], "m:latest", "its model's name is known: {context}");
    assert!(count(&context, "ram_bytes") > 0 && count(&context, "tokens") > 256, "{context}");
    place.cache(&["pin", &id[..6]]);
    assert!(place.contexts().iter().any(|context| context["pinned"] == true), "by the beginning of its id");
    place.cache(&["unpin", id]);
    let (status, told) = place.own("POST", "/app/cache/prefetch", r#"{"owner":"chat-12"}"#);
    assert_eq!((status, count(&told, "contexts")), (202, 1), "{told}");
    let (status, told) = place.own("POST", "/app/cache/prefetch", r#"{"owner":"chat-13"}"#);
    assert_eq!((status, count(&told, "contexts")), (202, 0), "{told}");
    place.cache(&["drop", id]);
    refused(&place.home.run(&["cache", "drop", id]), "no kept context has the id");
    assert!(place.contexts().iter().all(|context| context["id"] != id), "it is gone");
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let place = Place::new();
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
        assert!(answer["error"].as_str().is_some_and(|error| error.starts_with(headers[0].0)), "it is named: {answer}");
    }
    let check = |method: &str, path: &str, body: &str, expected: u16| {
        let (status, answer) = place.own(method, path, body);
        assert_eq!(status, expected, "{method} {path} {body}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|error| !error.is_empty()), "it says why: {answer}");
    };
    let limits = "/app/cache/limits";
    for body in ["", "{", "7", r#"{"ram_bytes":-1}"#, r#"{"ram_bytes":1e300}"#, r#"{"ram_bites":1}"#] {
        check("PUT", limits, body, 400);
    }
    for bytes in ["1", "18446744073709551615"] {
        check("PUT", limits, &format!(r#"{{"ram_bytes":{bytes}}}"#), 400);
        check("PUT", limits, &format!(r#"{{"folder_bytes":{bytes}}}"#), 400);
    }
    // The environment names the folder.
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
    check("POST", "/app/cache/trace", r#"{"model":"nobody","messages":[{"role":"user","content":"x"}]}"#, 404);
    let (status, _) = place.request("GET", "/app/cache", &[], "");
    assert_eq!(status, 401, "none of it is for those without the token");

    let (status, now) = place.own("PUT", limits, r#"{"ram_bytes":100000000,"folder_bytes":200000000}"#);
    assert_eq!((status, &now["ram_bytes"]["value"]), (200, &json!(100_000_000)), "{now}");
    assert!(kill(daemon.child.id(), "-TERM"), "the daemon runs");
    daemon.child.wait().expect("it is ours");
    drop(daemon);
    let _daemon = place.serve();
    let (_, status) = place.own("GET", "/app/cache", "");
    let budgets: Vec<u64> =
        status["tiers"].as_array().expect("a list").iter().map(|tier| count(tier, "budget_bytes")).collect();
    assert_eq!(budgets, [100_000_000, 200_000_000], "a restart keeps them: {status}");

    let home = tiered(Home::new());
    let place = Place { folder: home.folder.path().join("elsewhere"), home };
    let _daemon = place.serve();
    for folder in ["kv", "/tmp/../etc/kv", "/", "/proc/kv", ""] {
        check_folder(&place, folder, 400);
    }
    let library = place.home.folder.path().join("models/kv");
    check_folder(&place, &library.to_string_lossy(), 400);
    assert!(!library.exists(), "nothing is made in a library");
    check_folder(&place, &place.folder.to_string_lossy(), 200);
}

fn check_folder(place: &Place, folder: &str, expected: u16) {
    let (status, answer) = place.own("PUT", "/app/cache/limits", &json!({"folder": folder}).to_string());
    assert_eq!(status, expected, "{folder:?}: {answer}");
}
