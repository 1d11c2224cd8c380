//! A browser comes in: the address that `cairn ui` prints, the page, and the session that it begins.

use serde_json::{Value, json};

use crate::cairn::{Home, exchange, succeeded};

#[test]
fn a_browser_gets_in_by_the_printed_address() {
    let home = Home::new();
    let _daemon = home.serve();
    let printed = succeeded(&home.run(&["ui"]));
    let (page, ticket) = printed.trim().split_once("#t=").expect("an address with a ticket");
    assert_eq!(page, format!("http://127.0.0.1:{}/ui/", home.port), "of this daemon");
    let (status, body) = exchange(home.port, "GET", "/ui/", &[], "").expect("the daemon answers");
    assert!(status == 200 && body.contains("<!doctype html>"), "{status}: {body}");

    let begin = |origin: &str| {
        let body = json!({ "ticket": ticket }).to_string();
        exchange(home.port, "POST", "/app/session", &[("Origin", origin)], &body).expect("the daemon answers")
    };
    assert_eq!(begin("https://evil.example").0, 403, "a foreign page gets nothing, and uses nothing up");
    let (status, body) = begin(page.trim_end_matches("/ui/"));
    assert_eq!(status, 200, "{body}");
    let token = serde_json::from_str::<Value>(&body).expect("JSON")["token"].as_str().expect("a token").to_owned();
    assert_eq!(begin(page.trim_end_matches("/ui/")).0, 401, "a ticket is good once");

    let ask = |token: &str| {
        let bearer = format!("Bearer {token}");
        exchange(home.port, "GET", "/app/status", &[("Authorization", &bearer)], "").expect("the daemon answers").0
    };
    assert_eq!((ask(&token), ask(ticket)), (200, 401), "the session is let in, the ticket is not");
    let said = std::fs::read_to_string(home.folder.path().join("serve.log")).expect("a log");
    assert!(!said.contains(&token) && !said.contains(ticket), "neither is in the log");
}
