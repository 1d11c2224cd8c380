//! Following a daemon that is not there, and settling what was chosen with one of a few answers.

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
fn what_happens_before_somebody_looks_is_seen() {
    let seen = watch::Sender::new(Seen::at_start(Language::of("en")));
    let ended = runtime().block_on(async {
        let following = follow(Err(anyhow::anyhow!("no cairn")), &seen, |_| {});
        tokio::time::timeout(FIRST_PAUSE / 4, following).await
    });
    assert!(ended.is_err(), "it goes on");
    assert_eq!(seen.borrow().daemon, Daemon::Gone("no cairn".to_owned()), "who looks later sees it");
}

/// Answers one request after the other, each on a connection of its own, and returns what was asked.
fn answer(listener: &TcpListener, answers: Vec<(u16, Value)>) -> Vec<String> {
    let mut asked = Vec::new();
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
        let what = head.split(" http/").next().unwrap_or_default();
        asked.push(format!("{what} {}", String::from_utf8(sent).unwrap()).trim().to_owned());
        let body = body.to_string();
        let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).unwrap();
    }
    asked
}

#[test]
fn what_was_chosen_is_told_before_the_settings_are_believed() {
    let check = |what: &str, unsent: Option<Closing>, answers: Vec<(u16, Value)>, asked: &[&str], then: Closing| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let client = Client::new(DesktopServer { address, token: "t".into() }).unwrap();
        let seen = watch::Sender::new(Seen { unsent, ..Seen::at_start(Language::English) });
        let daemon = std::thread::spawn(move || answer(&listener, answers));
        runtime().block_on(settle(&client, &seen)).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        assert_eq!(daemon.join().unwrap(), asked, "{what}: what the daemon was asked");
        let seen = seen.borrow();
        assert_eq!((seen.choices.closing, seen.unsent), (then, None), "{what}: what holds, and nothing waits");
    };
    let told = |close: &str| (200, table(&json!(close), &json!(true)));
    let (read, write) = ("get /app/settings", "patch /app/settings {\"ui.close\":\"quit\"}");
    check("nothing was chosen", None, vec![told("tray")], &[read], Closing::Tray);
    check("it is taken", Some(Closing::Quit), vec![told("quit"), told("quit")], &[write, read], Closing::Quit);
    let refusal = (400, json!({"error": "config.toml cannot be read", "wrong": []}));
    check("it is refused", Some(Closing::Quit), vec![refusal, told("ask")], &[write, read], Closing::Ask);
}

#[test]
fn what_was_chosen_without_a_daemon_waits_for_one() {
    let address = "http://127.0.0.1:1".to_owned();
    let client = Client::new(DesktopServer { address, token: "t".into() }).unwrap();
    let choices = Choices { closing: Closing::Tray, notify: false };
    let before = Seen { choices, unsent: Some(Closing::Tray), ..Seen::at_start(Language::English) };
    let seen = watch::Sender::new(before.clone());
    assert!(runtime().block_on(settle(&client, &seen)).is_err(), "nobody listens there");
    assert_eq!(*seen.borrow(), before, "what was known last holds, and what was chosen is told later");
}
