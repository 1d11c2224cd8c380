//! Tests without a daemon, and with a mock daemon that has a few responses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use super::*;
use crate::choices::tests::table;
use crate::words::Language;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn state_without_subscribers_is_updated() {
    let state = watch::Sender::new(ShellState::new(Language::of("en")));
    let timeout = runtime().block_on(async {
        let following = follow(Err(anyhow::anyhow!("no cairn")), &state, |_| {});
        tokio::time::timeout(FIRST_BACKOFF / 4, following).await
    });
    assert!(timeout.is_err(), "`follow` retries until the app ends");
    assert_eq!(state.borrow().daemon, Daemon::Unavailable("no cairn".to_owned()), "a later subscriber gets the state");
}

/// Sends one response per connection, and returns the requests.
fn answer(listener: &TcpListener, answers: Vec<(u16, Value)>) -> Vec<String> {
    let mut requests = Vec::new();
    for (status, body) in answers {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        let (mut line, mut head) = (String::new(), String::new());
        while lines.read_line(&mut line).unwrap() > 2 {
            head += &line.to_ascii_lowercase();
            line.clear();
        }
        let length = head.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next()?.parse().ok());
        let mut sent = vec![0; length.unwrap_or(0)];
        lines.read_exact(&mut sent).unwrap();
        let request = head.split(" http/").next().unwrap_or_default();
        requests.push(format!("{request} {}", String::from_utf8(sent).unwrap()).trim().to_owned());
        let body = body.to_string();
        let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).unwrap();
    }
    requests
}

#[test]
fn unsent_close_action_is_sent_before_settings_are_read() {
    let check = |case: &str,
                 unsent: Option<CloseAction>,
                 answers: Vec<(u16, Value)>,
                 requests: &[&str],
                 then: CloseAction| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let client = Client::new(DesktopServer { address, token: "t".into() }).unwrap();
        let state = watch::Sender::new(ShellState { unsent, ..ShellState::new(Language::English) });
        let daemon = std::thread::spawn(move || answer(&listener, answers));
        runtime().block_on(sync_settings(&client, &state)).unwrap_or_else(|error| panic!("{case}: {error:#}"));
        assert_eq!(daemon.join().unwrap(), requests, "{case}: the requests");
        let state = state.borrow();
        assert_eq!((state.settings.close_action, state.unsent), (then, None), "{case}: the action, and nothing unsent");
    };
    let response = |close: &str| (200, table(&json!(close), &json!(true)));
    let (read, write) = ("get /app/settings", "patch /app/settings {\"ui.close\":\"quit\"}");
    check("nothing is unsent", None, vec![response("tray")], &[read], CloseAction::Tray);
    let accepted = vec![response("quit"), response("quit")];
    check("the choice is accepted", Some(CloseAction::Quit), accepted, &[write, read], CloseAction::Quit);
    let refusal = (400, json!({"error": "config.toml cannot be read", "wrong": []}));
    let refused = vec![refusal, response("ask")];
    check("the choice is refused", Some(CloseAction::Quit), refused, &[write, read], CloseAction::Ask);
}

#[test]
fn unsent_close_action_is_kept_if_daemon_is_unreachable() {
    let address = "http://127.0.0.1:1".to_owned();
    let client = Client::new(DesktopServer { address, token: "t".into() }).unwrap();
    let settings = WindowSettings { close_action: CloseAction::Tray, notify: false };
    let before = ShellState { settings, unsent: Some(CloseAction::Tray), ..ShellState::new(Language::English) };
    let state = watch::Sender::new(before.clone());
    assert!(runtime().block_on(sync_settings(&client, &state)).is_err(), "no daemon listens at the port");
    assert_eq!(*state.borrow(), before, "the last settings apply, and the choice stays unsent");
}
