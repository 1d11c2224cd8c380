//! Tests of the browser interface: its files and the sign-in of a page.

use super::*;

const HOST: &str = "127.0.0.1:11434";

fn to(method: &str, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header(header::HOST, HOST)
}

async fn status(daemon: &Daemon, request: axum::http::request::Builder, body: &str) -> u16 {
    daemon.send(request.body(Body::from(body.to_owned())).unwrap()).await.status().as_u16()
}

/// Returns the ticket of a new sign-in URL.
async fn ticket(daemon: &Daemon) -> String {
    let reply = daemon.authorized("POST", "/app/session/ticket", "null").await;
    let url = reply.split_once(r#""url":""#).and_then(|(_, rest)| rest.split_once('"')).expect("a URL").0;
    let ticket = url.strip_prefix("http://127.0.0.1:11434/ui/#t=").expect("a URL of this daemon");
    assert_eq!(ticket.len(), 32, "128 bits as hex: {url}");
    ticket.to_owned()
}

fn exchange(ticket: &str) -> String {
    format!(r#"{{"ticket":"{ticket}"}}"#)
}

#[tokio::test]
async fn files_have_security_headers() {
    let daemon = Daemon::start();
    let response = daemon.send(to("GET", "/ui/").body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::OK, "the page");
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(header("content-type").as_deref(), Some("text/html; charset=utf-8"), "an HTML page");
    assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"), "content types are not guessed");
    assert_eq!(header("referrer-policy").as_deref(), Some("no-referrer"), "other servers do not see the URL");
    assert_eq!(header("cache-control").as_deref(), Some("no-cache"), "a new version is shown at once");
    let policy = header("content-security-policy").expect("a content security policy");
    for part in ["default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';"] {
        assert!(policy.contains(part), "{part} in {policy}");
    }
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
    let missing = daemon.send(to("GET", "/ui/nothing.js").body(Body::empty()).unwrap()).await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND, "a missing file");
    assert!(missing.headers().contains_key(header::CONTENT_SECURITY_POLICY), "errors have the policy too");
    assert_eq!(status(&daemon, to("GET", "/ui"), "").await, 308, "redirect to the path with a slash");
    assert_eq!(status(&daemon, to("HEAD", "/ui/"), "").await, 200, "HEAD is accepted");
    assert_eq!(status(&daemon, to("GET", "/ui/%2e%2e/Cargo.toml"), "").await, 404, "files on disk are not served");
}

#[tokio::test]
async fn preview_has_its_own_policy() {
    let daemon = Daemon::start();
    // A build without the interface has no such file; the headers are those of the path.
    let response = daemon.send(to("GET", "/ui/preview.html").body(Body::empty()).unwrap()).await;
    let header = |name: &str| response.headers().get(name).map_or("", |value| value.to_str().unwrap());
    let policy = header("content-security-policy");
    for part in [
        "default-src 'none';",
        "sandbox allow-scripts;",
        "form-action 'none';",
        "frame-ancestors 'self' tauri://localhost http://tauri.localhost",
    ] {
        assert!(policy.contains(part), "{part} in {policy}");
    }
    for part in ["frame-src", "connect-src", "worker-src", "allow-same-origin", "http:;", "blob:", "*"] {
        assert!(!policy.contains(part), "no {part} in {policy}");
    }
    assert_eq!(header("x-frame-options"), "", "the interface may embed it");
    assert_eq!(header("x-dns-prefetch-control"), "off", "hosts of links are not resolved");
    let interface = daemon.send(to("GET", "/ui/").body(Body::empty()).unwrap()).await;
    let policy = interface.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("frame-src 'self';"), "the interface embeds files of the daemon only: {policy}");
    assert_eq!(interface.headers()["x-frame-options"], "DENY", "other pages do not embed the interface");
}

#[tokio::test]
async fn page_is_served_to_local_clients_and_names_only() {
    let daemon = Daemon::start();
    for path in ["/ui/", "/app/session"] {
        let method = if path == "/ui/" { "GET" } else { "POST" };
        let good = if path == "/ui/" { 200 } else { 401 };
        let check = async |request: axum::http::request::Builder, expected: u16, what: &str| {
            assert_eq!(status(&daemon, request, &exchange("x")).await, expected, "{what} at {path}");
        };
        let from = |host: &str| Request::builder().method(method).uri(path).header(header::HOST, host);
        check(from(HOST), good, "the IPv4 address").await;
        check(from("localhost:11434"), good, "the local name").await;
        check(from("[::1]:11434"), good, "the IPv6 address").await;
        check(from("evil.example:11434"), 403, "a public DNS name").await;
        check(from("127.0.0.1:80"), 403, "another port").await;
        check(from("192.168.1.2:11434"), 403, "another address").await;
        check(from(""), 403, "no name in the Host header").await;
        let of = |origin: &str| from(HOST).header(header::ORIGIN, origin);
        check(of("http://127.0.0.1:11434"), good, "the daemon's own page").await;
        check(of("tauri://localhost"), good, "the desktop window").await;
        check(of("http://localhost:3000"), 403, "a foreign page of this machine").await;
        check(of("null"), 403, "a page without an origin").await;
        let mut remote = from(HOST).body(Body::from(exchange("x"))).unwrap();
        remote.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 168, 0, 9], 1))));
        let response = daemon.router.clone().oneshot(remote).await.unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "another machine at {path}");
    }
}

#[tokio::test]
async fn ticket_creates_one_session() {
    let daemon = Daemon::start();
    assert_eq!(
        status(&daemon, to("POST", "/app/session/ticket"), "null").await,
        401,
        "creating a ticket needs the token"
    );
    let ticket = ticket(&daemon).await;
    let reply = daemon.reply(to("POST", "/app/session").body(Body::from(exchange(&ticket))).unwrap()).await;
    let token = reply.split_once(r#""token":""#).and_then(|(_, rest)| rest.split_once('"')).expect("a token").0;
    assert_ne!(token, ticket, "the token differs from the ticket in the URL");
    let bearer = |token: &str| to("GET", "/app/status").header(header::AUTHORIZATION, format!("Bearer {token}"));
    assert_eq!(status(&daemon, bearer(token), "").await, 200, "the session token authorizes requests");
    assert_eq!(
        status(&daemon, bearer(token).header(header::ORIGIN, "https://evil.example"), "").await,
        403,
        "foreign pages are rejected"
    );
    for other in [&*ticket, "", &token[1..], &token.to_ascii_uppercase()] {
        assert_eq!(status(&daemon, bearer(other), "").await, 401, "{other:?} is not a valid token");
    }
    assert_eq!(status(&daemon, to("POST", "/app/session"), &exchange(&ticket)).await, 401, "a used ticket");
    let mut long = exchange(&"x".repeat(2000));
    assert_eq!(status(&daemon, to("POST", "/app/session"), &long).await, 413, "long bodies need a token");
    long.clear();
    assert_eq!(status(&daemon, to("POST", "/app/session"), &long).await, 400, "an empty body");
    let cookie = to("GET", "/app/status").header(header::COOKIE, format!("token={token}"));
    assert_eq!(status(&daemon, cookie, "").await, 401, "cookies are ignored");
}

#[tokio::test(start_paused = true)]
async fn ticket_expires_after_a_minute() {
    let daemon = Daemon::start();
    let (early, late) = (ticket(&daemon).await, ticket(&daemon).await);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(status(&daemon, to("POST", "/app/session"), &exchange(&early)).await, 200, "before the expiry");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(status(&daemon, to("POST", "/app/session"), &exchange(&late)).await, 401, "after the expiry");
}

#[tokio::test]
async fn window_preflight_is_accepted_on_all_paths() {
    let daemon = Daemon::start();
    for origin in ["tauri://localhost", "http://tauri.localhost"] {
        for path in ["/app/status", "/app/settings", "/api/tags"] {
            let preflight = to("OPTIONS", path).header(header::ORIGIN, origin);
            let response = daemon.send(preflight.body(Body::empty()).unwrap()).await;
            let header = |name| response.headers().get(name).map_or("", |value| value.to_str().unwrap());
            assert_eq!(response.status(), StatusCode::NO_CONTENT, "preflight of {origin} for {path}");
            assert_eq!(header(header::ACCESS_CONTROL_ALLOW_ORIGIN), origin, "{path}");
            assert!(header(header::ACCESS_CONTROL_ALLOW_HEADERS).contains("Authorization"), "{path}");
            assert!(header(header::ACCESS_CONTROL_ALLOW_METHODS).contains("PATCH"), "{path}");
        }
    }
}
