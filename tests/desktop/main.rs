//! End-to-end tests of the desktop app's window on a virtual display (Xvfb), driven by WebKitWebDriver.
//!
//! `cargo xtask test` builds the page and the app, and installs the required programs. Without them, each test is
//! skipped with a message. Tests run one at a time, because web views need much memory and processor time.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

#[path = "../it/cairn.rs"]
#[expect(dead_code, reason = "tests without a window use the rest")]
mod cairn;
mod chats;
mod deadline;
mod homes;
mod kept;
mod processes;
#[path = "../it/pulls/published.rs"]
#[expect(dead_code, reason = "tests without a window use the rest")]
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

/// Label of the tray row that ends the app while no download runs.
const QUIT: &str = "Quit (stops the server)";

/// Runs a test with a display, this home and an app that is ready for input.
fn with_app(home: Home, test: impl for<'a> FnOnce(&'a Screen, &'a Home, Session<'a>)) {
    let Some(screen) = Screen::new() else { return };
    let session = Session::open(&screen, &home);
    test(&screen, &home, session);
}

/// Sends a request with the daemon token; returns the response.
fn app(home: &Home, method: &str, path: &str, body: &Value) -> Value {
    let bearer = home.bearer().expect("the daemon runs");
    let headers = [("Authorization", &*bearer), ("Content-Type", "application/json")];
    let (status, response) =
        exchange(home.port, method, path, &headers, &body.to_string()).expect("the daemon answers");
    assert!(status < 300, "{method} {path}: {status} {response}");
    serde_json::from_str(&response).unwrap_or(Value::Null)
}

/// Imports a model.
fn import_model(home: &Home, name: &str, spec: &ModelSpec) {
    let file = home.folder.path().join(name).with_extension("gguf");
    cairn_testkit::write_file(spec, &file).expect("the home is writable");
    succeeded(&output(&mut home.command(&["import", &file.to_string_lossy(), name])));
}

/// Imports a chat of alternating user and model messages; returns its id.
fn import_chat(home: &Home, model: &str, texts: &[&str]) -> String {
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
    app(home, "GET", "/app/chats", &Value::Null)["chats"][0]["id"].as_str().expect("the chat exists").to_owned()
}

fn open_chat(session: &Session<'_>, id: &str) {
    session.run(&format!("location.hash = '#/chat/{id}'"));
    session.see("article.assistant");
}

/// Returns the text of the last answer.
fn last_answer(session: &Session<'_>) -> String {
    session.texts("article.assistant.latest .prose").pop().unwrap_or_default()
}

/// Starts the app a second time and waits for its exit.
fn second_start(screen: &Screen, home: &Home, words: &[&str]) -> Output {
    output(screen.app(home).args(words))
}

/// Ends the app and the daemon with the tray.
fn quit(screen: &Screen, home: &Home) {
    let daemon = home.daemon_pid().expect("the daemon wrote its file");
    until("the tray is ready", || tray::labels(screen).iter().any(|label| label == QUIT));
    tray::click(screen, QUIT);
    until("the app exited", || screen.apps(home).is_empty());
    until("the daemon exited", || !kill(daemon, "-0"));
}
