//! Tests of access control.

use super::*;

async fn status(request: axum::http::request::Builder) -> (u16, Option<String>) {
    let response = Daemon::start().send(request.body(Body::empty()).unwrap()).await;
    let allowed = response.headers().get(header::ACCESS_CONTROL_ALLOW_ORIGIN);
    (response.status().as_u16(), allowed.map(|origin| origin.to_str().unwrap().to_owned()))
}

#[tokio::test]
async fn api_is_open_to_local_pages_only() {
    let check = async |origin: &str, expected: u16| {
        let request =
            Request::get("/api/version").header(header::HOST, "127.0.0.1:11434").header(header::ORIGIN, origin);
        let (status, allowed) = status(request).await;
        assert_eq!(status, expected, "{origin}");
        let same_origin = origin == "http://127.0.0.1:11434";
        assert_eq!(allowed.is_some(), expected == 200 && !same_origin, "the CORS header for {origin}: {allowed:?}");
    };
    check("http://localhost:3000", 200).await;
    check("tauri://localhost", 200).await;
    check("http://tauri.localhost", 200).await;
    check("http://127.0.0.1:11434", 200).await;
    check("https://example.org", 403).await;
    check("null", 403).await;
}

#[tokio::test]
async fn preflight_accepts_local_pages_only() {
    let request = Request::builder().method("OPTIONS").uri("/api/chat").header(header::ORIGIN, "http://localhost:3000");
    assert_eq!(status(request).await, (204, Some("http://localhost:3000".to_owned())), "a local page");
    let request = Request::builder().method("OPTIONS").uri("/api/chat").header(header::ORIGIN, "http://example.org");
    assert_eq!(status(request).await, (403, None), "a foreign page");
}

#[tokio::test]
async fn host_header_with_public_name_is_rejected() {
    let check = async |host: &str, expected: u16| {
        assert_eq!(status(Request::get("/api/tags").header(header::HOST, host)).await.0, expected, "{host}");
    };
    check("localhost:11434", 200).await;
    check("evil.example.org:11434", 403).await;
}

#[tokio::test]
async fn app_requires_token_host_origin_and_local_client() {
    let good = || {
        Request::get("/app/status")
            .header(header::HOST, "127.0.0.1:11434")
            .header(header::AUTHORIZATION, "Bearer secret")
    };
    assert_eq!(status(good()).await.0, 200, "the token, from this machine");
    assert_eq!(status(good().header(header::ORIGIN, "tauri://localhost")).await.0, 200, "the desktop window");
    assert_eq!(status(good().header(header::ORIGIN, "http://127.0.0.1:11434")).await.0, 200, "the daemon's own page");
    assert_eq!(
        status(good().header(header::ORIGIN, "http://localhost:3000")).await.0,
        403,
        "another page on this machine"
    );
    let bare = |host: &str| Request::get("/app/status").header(header::HOST, host);
    assert_eq!(status(bare("127.0.0.1:11434")).await.0, 401, "no token");
    let wrong = bare("127.0.0.1:11434").header(header::AUTHORIZATION, "Bearer secreT");
    assert_eq!(status(wrong).await.0, 401, "another token");
    let other_port = bare("127.0.0.1:80").header(header::AUTHORIZATION, "Bearer secret");
    assert_eq!(status(other_port).await.0, 403, "another port");
    let other_host = bare("box.local:11434").header(header::AUTHORIZATION, "Bearer secret");
    assert_eq!(status(other_host).await.0, 403, "a name that other machines can claim");
    let mut remote = good().body(Body::empty()).unwrap();
    remote.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 168, 0, 9], 1))));
    let response = Daemon::start().router.oneshot(remote).await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN, "another machine");
}

#[tokio::test]
async fn unreadable_or_repeated_headers_are_rejected() {
    let check = async |path: &str, name: header::HeaderName, values: &[&[u8]], expected: u16| {
        let mut request = Request::get(path).header(header::AUTHORIZATION, "Bearer secret");
        if name != header::HOST {
            request = request.header(header::HOST, "127.0.0.1:11434");
        }
        for value in values {
            request = request.header(&name, *value);
        }
        assert_eq!(status(request).await.0, expected, "{name} {values:?} at {path}");
    };
    for path in ["/api/version", "/app/status"] {
        check(path, header::ORIGIN, &["http://évil.example".as_bytes()], 403).await;
        check(path, header::ORIGIN, &[b"tauri://localhost", b"http://evil.example"], 403).await;
        check(path, header::HOST, &["évil.example".as_bytes()], 403).await;
        check(path, header::HOST, &[b"127.0.0.1:11434", b"evil.example"], 403).await;
        check(path, header::HOST, &[b"127.0.0.1:11434"], 200).await;
    }
}

#[tokio::test]
async fn window_can_send_the_token_and_read_responses() {
    let preflight =
        |origin: &str| Request::builder().method("OPTIONS").uri("/app/status").header(header::ORIGIN, origin);
    assert_eq!(status(preflight("tauri://localhost")).await, (204, Some("tauri://localhost".to_owned())), "the window");
    let host = |request: axum::http::request::Builder| request.header(header::HOST, "127.0.0.1:11434");
    assert_eq!(status(host(preflight("http://localhost:3000"))).await, (403, None), "another page");
    let read = Request::get("/app/status").header(header::AUTHORIZATION, "Bearer secret");
    let read = host(read).header(header::ORIGIN, "http://tauri.localhost");
    assert_eq!(
        status(read).await,
        (200, Some("http://tauri.localhost".to_owned())),
        "the window can read the response"
    );
}

#[tokio::test(start_paused = true)]
async fn refused_page_waits_and_programs_do_not() {
    let daemon = Daemon::start();
    let check = async |host: &str, origin: Option<&str>, expected: u16, is_delayed: bool| {
        let mut request = Request::get("/api/version").header(header::HOST, host);
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        let started = tokio::time::Instant::now();
        let response = daemon.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), expected, "{host} {origin:?}");
        assert_eq!(!started.elapsed().is_zero(), is_delayed, "{host} {origin:?}: {:?}", started.elapsed());
    };
    check("127.0.0.1:11434", Some("https://evil.example"), 403, true).await;
    check("evil.example", None, 403, true).await;
    check("127.0.0.1:11434", Some("http://localhost:3000"), 200, false).await;
    check("127.0.0.1:11434", None, 200, false).await;
}
