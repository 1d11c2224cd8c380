//! Journeys in the real window of the desktop app, on a screen that nobody sees (Xvfb), driven as a person would by WebKitWebDriver.
//!
//! `cargo xtask test` builds the page and the app, and installs what this takes. Where that is missing, each journey says that it was
//! skipped. One runs at a time: web views are large, and a journey that waits for another's processor time proves nothing.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

#[path = "../it/cairn.rs"]
#[expect(dead_code, reason = "the journeys without a window use the rest")]
mod cairn;
mod chats;
mod deadline;
mod homes;
mod kept;
mod processes;
#[path = "../it/pulls/published.rs"]
#[expect(dead_code, reason = "the journeys without a window use the rest")]
mod published;
mod pulls;
mod screen;
mod session;
mod starts;
mod tray;

use std::process::Output;

use cairn_testkit::ModelSpec;
use serde_json::{Value, json};

use cairn::{Home, exchange, kill, succeeded};
use deadline::{output, until};
use screen::Screen;
use session::Session;

/// What the tray offers to end the app with while nothing is on its way.
const QUIT: &str = "Quit (stops the server)";

/// A journey that begins where its user can write: on a screen of its own, with the app at this home.
fn journey(home: Home, walk: impl for<'a> FnOnce(&'a Screen, &'a Home, Session<'a>)) {
    let Some(screen) = Screen::new() else { return };
    let session = Session::open(&screen, &home);
    walk(&screen, &home, session);
}

/// The daemon's answer to what our own programs ask.
fn app(home: &Home, method: &str, path: &str, body: &Value) -> Value {
    let bearer = home.bearer().expect("the daemon runs");
    let headers = [("Authorization", &*bearer), ("Content-Type", "application/json")];
    let (status, said) = exchange(home.port, method, path, &headers, &body.to_string()).expect("the daemon answers");
    assert!(status < 300, "{method} {path}: {status} {said}");
    serde_json::from_str(&said).unwrap_or(Value::Null)
}

/// Brings a model into the library.
fn bring_model(home: &Home, name: &str, spec: &ModelSpec) {
    let file = home.folder.path().join(name).with_extension("gguf");
    cairn_testkit::write_file(spec, &file).expect("the home is writable");
    succeeded(&output(&mut home.command(&["import", &file.to_string_lossy(), name])));
}

/// Brings a chat of these messages, by turns its user's and the model's, and returns its id.
fn bring_chat(home: &Home, model: &str, texts: &[&str]) -> String {
    const TIME: &str = "2026-01-01T00:00:00Z";
    let message = |(at, text): (usize, &&str)| {
        json!({
            "id": format!("{at:032x}"), "parent": at.checked_sub(1).map(|before| format!("{before:032x}")),
            "role": if at % 2 == 0 { "user" } else { "assistant" }, "content": text, "created_at": TIME, "state": "complete",
        })
    };
    let messages: Vec<Value> = texts.iter().enumerate().map(message).collect();
    let (id, head) = ("c".repeat(32), messages.last().map(|last| last["id"].clone()));
    let chat = json!({
        "id": id, "title": "A chat", "model": model, "created_at": TIME, "updated_at": TIME, "head": head, "messages": messages,
    });
    let export = json!({"format": "cairn-chats", "version": 1, "exported_at": TIME, "chats": [chat]});
    app(home, "POST", "/app/chats/import", &json!({ "export": export }));
    app(home, "GET", "/app/chats", &Value::Null)["chats"][0]["id"].as_str().expect("it is there").to_owned()
}

fn open_chat(session: &Session<'_>, id: &str) {
    session.run(&format!("location.hash = '#/chat/{id}'"));
    session.see("article.assistant");
}

/// What the last answer says so far.
fn last_answer(session: &Session<'_>) -> String {
    session.texts("article.assistant.latest .prose").pop().unwrap_or_default()
}

/// Starts the app a second time and waits for that start's end.
fn second_start(screen: &Screen, home: &Home, words: &[&str]) -> Output {
    output(screen.app(home).args(words))
}

/// Ends the app and the daemon as the tray does.
fn quit(screen: &Screen, home: &Home) {
    let daemon = home.daemon_pid().expect("it wrote its file");
    until("the tray is ready", || tray::labels(screen).iter().any(|label| label == QUIT));
    tray::click(screen, QUIT);
    until("the app is gone", || screen.apps(home).is_empty());
    until("the daemon is gone", || !kill(daemon, "-0"));
}
