//! Chats through the real daemon: what is said is there after a restart, and after a kill in the middle of an answer.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cairn::{Home, exchange, kill, send, succeeded};

/// A client of `/app`.
struct Client<'a> {
    home: &'a Home,
}

impl Client<'_> {
    fn bearer(&self) -> String {
        self.home.bearer().expect("a running daemon says its token")
    }

    /// Asks, and returns what is answered with a status of success.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let text = self.text(method, path, body);
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect("an answer is JSON") }
    }

    fn text(&self, method: &str, path: &str, body: &Value) -> String {
        let bearer = self.bearer();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, text) = exchange(self.home.port, method, path, &[("Authorization", &bearer)], &body)
            .unwrap_or_else(|| panic!("{method} {path} is answered"));
        assert!((200..300).contains(&status), "{method} {path}: {status} {text}");
        text
    }

    fn get(&self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null)
    }

    /// Asks for an answer that streams, and returns its lines as they come.
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
fn what_pebble_says_is_there_after_a_restart() {
    let home = Home::new().with("CAIRN_CHAT_TITLES", "0");
    let client = Client { home: &home };
    let daemon = home.serve();
    let chat = client.create("pebble");
    let send = json!({"content": "How do I pull a model?", "options": {"temperature": 0}});
    let lines: Vec<Value> = client.lines(&format!("/app/chats/{chat}/messages"), &send).collect();
    assert_eq!(text(&lines[0]["user"]), "How do I pull a model?", "first what was asked: {lines:?}");
    assert_eq!(lines[1]["answer"]["state"], "answering", "then the answer, which has begun");
    let streamed: String = lines.iter().filter_map(|line| line["text"].as_str()).collect();
    let done = &lines.last().expect("lines")["done"];
    assert_eq!((text(done), &done["state"]), (streamed.as_str(), &json!("complete")), "it is what was streamed");
    assert!(done["stats"]["answer_tokens"].as_u64() > Some(0), "with what it cost: {done}");
    assert_eq!(client.get("/app/chats")["chats"][0]["title"], "How do I pull a model?", "named by its first words");
    drop(daemon);

    let _daemon = home.serve();
    let messages = client.messages(&chat);
    assert_eq!(messages.len(), 2, "both are there: {messages:?}");
    assert_eq!(text(&messages[1]), streamed, "as they were");
    let found = client.get("/app/chats/search?q=pull");
    assert_eq!(found["hits"][0]["chat"], json!(chat), "and found: {found}");
    let text = client.text("GET", &format!("/app/chats/{chat}/export?format=md"), &Value::Null);
    assert!(text.starts_with("# How do I pull a model?") && text.contains(streamed.trim()), "{text}");
}

#[test]
fn a_kill_in_the_middle_leaves_what_was_said_and_it_goes_on() {
    let home = Home::new().with("CAIRN_CHAT_TITLES", "0");
    let client = Client { home: &home };
    let path = home.folder.path().join("slow.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the home is writable");
    let daemon = home.serve();
    succeeded(&home.run(&["import", &path.to_string_lossy(), "slow"]));
    let chat = client.create("slow");
    let options = json!({"temperature": 0, "num_predict": 100_000});
    let send = json!({"content": "Tell me everything.", "options": options});
    // The client reads the beginning and leaves.
    let begun = client.lines(&format!("/app/chats/{chat}/messages"), &send).any(|line| line["text"].is_string());
    assert!(begun, "the answer begins");
    let until = Instant::now() + Duration::from_secs(30);
    while text(&client.messages(&chat)[1]).is_empty() {
        assert!(Instant::now() < until, "nothing is written down");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(client.get("/app/chats")["chats"][0]["answering"] == json!(true), "nobody watches, and it goes on");
    let on_disk = text(&client.messages(&chat)[1]).to_owned();
    assert!(kill(daemon.child.id(), "-KILL"), "it is still answering");
    drop(daemon);

    let _daemon = home.serve();
    let cut = client.messages(&chat).pop().expect("the answer is there");
    assert_eq!(cut["state"], "cut", "it is marked: {cut}");
    let said = text(&cut).to_owned();
    assert!(said.starts_with(&on_disk), "nothing that was on the disk is lost: {said:?} {on_disk:?}");
    let go_on = json!({"continue": cut["id"], "options": {"temperature": 0, "num_predict": 5}});
    let lines: Vec<Value> = client.lines(&format!("/app/chats/{chat}/answer"), &go_on).collect();
    assert_eq!(text(&lines[0]["answer"]), said, "it goes on from there: {lines:?}");
    let done = &lines.last().expect("lines")["done"];
    assert_eq!((&done["id"], &done["state"]), (&cut["id"], &json!("complete")), "to its end: {done}");
    let more = text(done).strip_prefix(said.as_str()).expect("what was there stays");
    assert!(!more.is_empty(), "and more came");
    assert_eq!(client.messages(&chat).len(), 2, "it is the same answer");
}

#[test]
fn a_daemon_that_is_asked_to_end_writes_down_what_there_is() {
    let home = Home::new().with("CAIRN_CHAT_TITLES", "0");
    let client = Client { home: &home };
    let path = home.folder.path().join("slow.gguf");
    cairn_testkit::write_file(&cairn_testkit::slow_llama(), &path).expect("the home is writable");
    let mut daemon = home.serve();
    succeeded(&home.run(&["import", &path.to_string_lossy(), "slow"]));
    let chat = client.create("slow");
    let send = json!({"content": "Tell me everything.", "options": {"num_predict": 100_000}});
    let mut lines = client.lines(&format!("/app/chats/{chat}/messages"), &send);
    let seen = lines.by_ref().find_map(|line| line["text"].as_str().map(str::to_owned)).expect("the answer begins");
    assert!(kill(daemon.child.id(), "-TERM"), "it is answering");
    daemon.child.wait().expect("it ends");
    drop(daemon);
    let _daemon = home.serve();
    let cut = client.messages(&chat).pop().expect("the answer is there");
    assert_eq!(cut["state"], "cut", "it is marked: {cut}");
    assert!(text(&cut).starts_with(&seen), "all that a client has seen is there: {cut} {seen:?}");
}
