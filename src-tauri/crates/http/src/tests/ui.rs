//! The interface for browsers: its files, and how a page gets in.

use super::*;

const HOST: &str = "127.0.0.1:11434";

fn to(method: &str, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header(header::HOST, HOST)
}

async fn status(daemon: &Daemon, request: axum::http::request::Builder, body: &str) -> u16 {
    daemon.send(request.body(Body::from(body.to_owned())).unwrap()).await.status().as_u16()
}

/// The ticket of a new address.
async fn ticket(daemon: &Daemon) -> String {
    let heard = daemon.own("POST", "/app/session/ticket", "null").await;
    let url = heard.split_once(r#""url":""#).and_then(|(_, rest)| rest.split_once('"')).expect("an address").0;
    let ticket = url.strip_prefix("http://127.0.0.1:11434/ui/#t=").expect("of this daemon's page");
    assert_eq!(ticket.len(), 32, "128 bits as hex: {url}");
    ticket.to_owned()
}

fn exchange(ticket: &str) -> String {
    format!(r#"{{"ticket":"{ticket}"}}"#)
}

#[tokio::test]
async fn files_come_with_a_policy() {
    let daemon = Daemon::start();
    let response = daemon.send(to("GET", "/ui/").body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK, "the page");
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(header("content-type").as_deref(), Some("text/html; charset=utf-8"), "a page");
    assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"), "and nothing else");
    assert_eq!(header("referrer-policy").as_deref(), Some("no-referrer"), "which tells nobody of itself");
    assert_eq!(header("cache-control").as_deref(), Some("no-cache"), "a new version is seen at once");
    let policy = header("content-security-policy").expect("a policy");
    for part in ["default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';"] {
        assert!(policy.contains(part), "{part} in {policy}");
    }
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    let missing = daemon.send(to("GET", "/ui/nothing.js").body(Body::empty()).unwrap()).await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND, "there is no such file");
    assert!(missing.headers().contains_key(header::CONTENT_SECURITY_POLICY), "refusals have the policy too");
    assert_eq!(status(&daemon, to("GET", "/ui"), "").await, 308, "the folder has a slash at its end");
    assert_eq!(status(&daemon, to("HEAD", "/ui/"), "").await, 200, "as any page");
    assert_eq!(status(&daemon, to("GET", "/ui/%2e%2e/Cargo.toml"), "").await, 404, "files of the disk are not there");
}

#[tokio::test]
async fn a_page_is_for_this_machine_and_its_own_name() {
    let daemon = Daemon::start();
    for path in ["/ui/", "/app/session"] {
        let method = if path == "/ui/" { "GET" } else { "POST" };
        let good = if path == "/ui/" { 200 } else { 401 };
        let check = async |request: axum::http::request::Builder, expected: u16, what: &str| {
            assert_eq!(status(&daemon, request, &exchange("x")).await, expected, "{what} at {path}");
        };
        let from = |host: &str| Request::builder().method(method).uri(path).header(header::HOST, host);
        check(from(HOST), good, "our address").await;
        check(from("localhost:11434"), good, "our name").await;
        check(from("[::1]:11434"), good, "our other address").await;
        check(from("evil.example:11434"), 403, "a name that anybody can point here").await;
        check(from("127.0.0.1:80"), 403, "another port").await;
        check(from("192.168.1.2:11434"), 403, "another address").await;
        check(Request::builder().method(method).uri(path), 403, "no name at all").await;
        let of = |origin: &str| from(HOST).header(header::ORIGIN, origin);
        check(of("http://127.0.0.1:11434"), good, "our page").await;
        check(of("tauri://localhost"), good, "our window").await;
        check(of("http://localhost:3000"), 403, "a foreign page of this machine").await;
        check(of("null"), 403, "a page from nowhere").await;
        let mut far = from(HOST).body(Body::from(exchange("x"))).unwrap();
        far.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 168, 0, 9], 1))));
        let response = daemon.router.clone().oneshot(far).await.unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "another machine at {path}");
    }
}

#[tokio::test]
async fn a_ticket_becomes_a_session_once() {
    let daemon = Daemon::start();
    assert_eq!(status(&daemon, to("POST", "/app/session/ticket"), "null").await, 401, "only our own programs make one");
    let ticket = ticket(&daemon).await;
    let heard = daemon.heard(to("POST", "/app/session").body(Body::from(exchange(&ticket))).unwrap()).await;
    let token = heard.split_once(r#""token":""#).and_then(|(_, rest)| rest.split_once('"')).expect("a token").0;
    assert_ne!(token, ticket, "what stood in an address opens nothing any more");
    let bearer = |token: &str| to("GET", "/app/status").header(header::AUTHORIZATION, format!("Bearer {token}"));
    assert_eq!(status(&daemon, bearer(token), "").await, 200, "the session is one of our own");
    assert_eq!(
        status(&daemon, bearer(token).header(header::ORIGIN, "https://evil.example"), "").await,
        403,
        "here only"
    );
    for other in [&*ticket, "", &token[1..], &token.to_ascii_uppercase()] {
        assert_eq!(status(&daemon, bearer(other), "").await, 401, "{other:?} is no token");
    }
    assert_eq!(status(&daemon, to("POST", "/app/session"), &exchange(&ticket)).await, 401, "it was used");
    let mut long = exchange(&"x".repeat(2000));
    assert_eq!(status(&daemon, to("POST", "/app/session"), &long).await, 413, "nobody sends much without a token");
    long.clear();
    assert_eq!(status(&daemon, to("POST", "/app/session"), &long).await, 400, "nor nothing");
    let cookie = to("GET", "/app/status").header(header::COOKIE, format!("token={token}"));
    assert_eq!(status(&daemon, cookie, "").await, 401, "cookies mean nothing");
}

#[tokio::test(start_paused = true)]
async fn a_ticket_is_good_for_a_minute() {
    let daemon = Daemon::start();
    let (early, late) = (ticket(&daemon).await, ticket(&daemon).await);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(status(&daemon, to("POST", "/app/session"), &exchange(&early)).await, 200, "in time");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(status(&daemon, to("POST", "/app/session"), &exchange(&late)).await, 401, "too late");
}

#[tokio::test]
async fn our_window_may_ask_with_a_token_everywhere() {
    let daemon = Daemon::start();
    for origin in ["tauri://localhost", "http://tauri.localhost"] {
        for path in ["/app/status", "/app/settings", "/api/tags"] {
            let asks = to("OPTIONS", path).header(header::ORIGIN, origin);
            let response = daemon.send(asks.body(Body::empty()).unwrap()).await;
            let header = |name| response.headers().get(name).map_or("", |value| value.to_str().unwrap());
            assert_eq!(response.status(), StatusCode::NO_CONTENT, "{origin} asks for {path}");
            assert_eq!(header(header::ACCESS_CONTROL_ALLOW_ORIGIN), origin, "{path}");
            assert!(header(header::ACCESS_CONTROL_ALLOW_HEADERS).contains("Authorization"), "{path}");
            assert!(header(header::ACCESS_CONTROL_ALLOW_METHODS).contains("PATCH"), "{path}");
        }
    }
}
