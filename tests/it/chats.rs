//! Chats of a real daemon survive a restart, a kill during an answer, and a shutdown.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cairn::{Home, exchange, kill, send, succeeded};

/// Client of the `/app` API.
struct Client<'a> {
    home: &'a Home,
}

impl Client<'_> {
    fn bearer(&self) -> String {
        self.home.bearer().expect("a running daemon writes its token")
    }

    /// Sends a request that must succeed and returns the response.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let text = self.text(method, path, body);
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect("an answer is JSON") }
    }

    fn text(&self, method: &str, path: &str, body: &Value) -> String {
        let bearer = self.bearer();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, text) = exchange(self.home.port, method, path, &[("Authorization", &bearer)], &body)
            .unwrap_or_else(|| panic!("{method} {path}: no response"));
        assert!((200..300).contains(&status), "{method} {path}: {status} {text}");
        text
    }

    fn get(&self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null)
    }

    /// Sends a POST and returns the JSON lines of the streamed response.
    fn lines(&self, path: &str, body: &Value) -> impl Iterator<Item = Value> + use<> {
        let bearer = self.bearer();
        let stream = send(self.home.port, "POST", path, &[("Authorization", &bearer)], &body.to_string());
        let lines = BufReader::new(stream.expect("the daemon takes connections")).lines();
        lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).filter(Value::is_object)
    }

    fn messages(&self, chat: &str) -> Vec<Value> {
        let page = self.get(&format!("/app/chats/{chat}/messages"));
        page["messages"].as_array().expect("messages are a list").clone()
    }

    fn create(&self, model: &str) -> String {
        let chat = self.ask("POST", "/app/chats", &json!({"model": model}));
        chat["id"].as_str().expect("a chat has an id").to_owned()
    }
}

fn text(message: &Value) -> &str {
    message["content"].as_str().expect("a message has a text")
}

#[test]
fn answer_survives_a_daemon_restart() {
    let home = Home::new().with("CAIRN_CHAT_TITLES", "0");
    let client = Client { home: &home };
    let daemon = home.serve();
    let chat = client.create("pebble");
    let send = json!({"content": "How do I pull a model?", "options": {"temperature": 0}});
    let lines: Vec<Value> = client.lines(&format!("/app/chats/{chat}/messages"), &send).collect();
    assert_eq!(text(&lines[0]["user"]), "How do I pull a model?", "first event: the user's message: {lines:?}");
    assert_eq!(lines[1]["answer"]["state"], "answering", "second event: the started answer");
    let streamed: String = lines.iter().filter_map(|line| line["text"].as_str()).collect();
    let done = &lines.last().expect("lines")["done"];
    assert_eq!(
        (text(done), &done["state"]),
        (streamed.as_str(), &json!("complete")),
        "the stored text is the streamed text"
    );
    assert!(done["usage"]["answer_tokens"].as_u64() > Some(0), "with usage: {done}");
    assert_eq!(client.get("/app/chats")["chats"][0]["title"], "How do I pull a model?", "titled by the first message");
    drop(daemon);

    let _daemon = home.serve();
    let messages = client.messages(&chat);
    assert_eq!(messages.len(), 2, "both messages are stored: {messages:?}");
    assert_eq!(text(&messages[1]), streamed, "unchanged");
    let found = client.get("/app/chats/search?q=pull");
    assert_eq!(found["hits"][0]["chat"], json!(chat), "search finds the chat: {found}");
    let text = client.text("GET", &format!("/app/chats/{chat}/export?format=md"), &Value::Null);
    assert!(text.starts_with("# How do I pull a model?") && text.contains(streamed.trim()), "{text}");
}

#[test]
fn interrupted_answer_survives_a_kill_and_continues() {
    let home = Home::new().with("CAIRN_CHAT_TITLES", "0");
    let client = Client { home: &home };
    let path = home.folder.path().join("slow.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the home is writable");
    let daemon = home.serve();
    succeeded(&home.run(&["import", &path.to_string_lossy(), "slow"]));
    let chat = client.create("slow");
    let options = json!({"temperature": 0, "num_predict": 100_000});
    let send = json!({"content": "Tell me everything.", "options": options});
    // The client reads the first delta and disconnects.
    let started = client.lines(&format!("/app/chats/{chat}/messages"), &send).any(|line| line["text"].is_string());
    assert!(started, "the answer starts");
    let until = Instant::now() + Duration::from_secs(30);
    while text(&client.messages(&chat)[1]).is_empty() {
        assert!(Instant::now() < until, "the partial answer is not stored");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(client.get("/app/chats")["chats"][0]["answering"] == json!(true), "generation continues without a client");
    let on_disk = text(&client.messages(&chat)[1]).to_owned();
    assert!(kill(daemon.child.id(), "-KILL"), "the daemon runs");
    drop(daemon);

    let _daemon = home.serve();
    let interrupted = client.messages(&chat).pop().expect("the answer is stored");
    assert_eq!(interrupted["state"], "interrupted", "the answer is marked as interrupted: {interrupted}");
    let content = text(&interrupted).to_owned();
    assert!(content.starts_with(&on_disk), "no stored text is lost: {content:?} {on_disk:?}");
    let request = json!({"continue": interrupted["id"], "options": {"temperature": 0, "num_predict": 5}});
    let lines: Vec<Value> = client.lines(&format!("/app/chats/{chat}/answer"), &request).collect();
    assert_eq!(text(&lines[0]["answer"]), content, "it continues the stored text: {lines:?}");
    let done = &lines.last().expect("lines")["done"];
    assert_eq!((&done["id"], &done["state"]), (&interrupted["id"], &json!("complete")), "it completes: {done}");
    let more = text(done).strip_prefix(content.as_str()).expect("the stored text is a prefix");
    assert!(!more.is_empty(), "text was added");
    assert_eq!(client.messages(&chat).len(), 2, "no message was added");
}

#[test]
fn daemon_shutdown_saves_the_partial_answer() {
    let home = Home::new().with("CAIRN_CHAT_TITLES", "0");
    let client = Client { home: &home };
    let path = home.folder.path().join("slow.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the home is writable");
    let mut daemon = home.serve();
    succeeded(&home.run(&["import", &path.to_string_lossy(), "slow"]));
    let chat = client.create("slow");
    let send = json!({"content": "Tell me everything.", "options": {"num_predict": 100_000}});
    let mut lines = client.lines(&format!("/app/chats/{chat}/messages"), &send);
    let seen = lines.by_ref().find_map(|line| line["text"].as_str().map(str::to_owned)).expect("the answer starts");
    assert!(kill(daemon.child.id(), "-TERM"), "the daemon runs");
    daemon.child.wait().expect("the process exits");
    drop(daemon);
    let _daemon = home.serve();
    let interrupted = client.messages(&chat).pop().expect("the answer is stored");
    assert_eq!(interrupted["state"], "interrupted", "the answer is marked as interrupted: {interrupted}");
    assert!(text(&interrupted).starts_with(&seen), "all streamed text is stored: {interrupted} {seen:?}");
}

#[test]
fn damaged_chats_are_set_aside_and_reported() {
    let home = Home::new().with("CAIRN_CHAT_TITLES", "0");
    let client = Client { home: &home };
    let daemon = home.serve();
    client.create("pebble");
    drop(daemon);
    let file = home.folder.path().join("chats/chats.sqlite");
    std::fs::write(&file, [7; 9000]).expect("the file exists");
    // The log has all pages of a new database.
    std::fs::remove_file(home.folder.path().join("chats/chats.sqlite-wal")).expect("the daemon was killed");
    let _daemon = home.serve();
    let notice = &client.get("/app/chats")["notices"][0];
    assert_eq!(notice["code"], "chats_repaired", "{notice}");
    let set_aside = notice["params"]["path"].as_str().expect("the notice has the path");
    assert!(std::path::Path::new(set_aside).exists(), "{set_aside}");
    client.create("pebble");
    assert_eq!(client.get("/app/chats")["chats"].as_array().map(Vec::len), Some(1), "chats can be stored");
}
