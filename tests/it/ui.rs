//! Browser sessions: the address that `cairn ui` prints, the page, and the session token.

use serde_json::{Value, json};

use crate::cairn::{Home, exchange, succeeded};

#[test]
fn printed_address_starts_a_browser_session() {
    let home = Home::new();
    let _daemon = home.serve();
    let printed = succeeded(&home.run(&["ui"]));
    let (page, ticket) = printed.trim().split_once("#t=").expect("an address with a ticket");
    assert_eq!(page, format!("http://127.0.0.1:{}/ui/", home.port), "the daemon's address");
    let (status, body) = exchange(home.port, "GET", "/ui/", &[], "").expect("the daemon answers");
    assert!(status == 200 && body.contains("<!doctype html>"), "{status}: {body}");

    let begin = |origin: &str| {
        let body = json!({ "ticket": ticket }).to_string();
        exchange(home.port, "POST", "/app/session", &[("Origin", origin)], &body).expect("the daemon answers")
    };
    assert_eq!(begin("https://evil.example").0, 403, "a foreign origin is refused and does not consume the ticket");
    let (status, body) = begin(page.trim_end_matches("/ui/"));
    assert_eq!(status, 200, "{body}");
    let token = serde_json::from_str::<Value>(&body).expect("JSON")["token"].as_str().expect("a token").to_owned();
    assert_eq!(begin(page.trim_end_matches("/ui/")).0, 401, "a ticket can be used once");

    let ask = |token: &str| {
        let bearer = format!("Bearer {token}");
        exchange(home.port, "GET", "/app/status", &[("Authorization", &bearer)], "").expect("the daemon answers").0
    };
    assert_eq!((ask(&token), ask(ticket)), (200, 401), "the session token is valid, the ticket is not");
    let log = std::fs::read_to_string(home.folder.path().join("serve.log")).expect("a log");
    assert!(!log.contains(&token) && !log.contains(ticket), "the log contains neither");
}
