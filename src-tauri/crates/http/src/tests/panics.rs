//! Handlers that panic.

use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::streaming::Events;

/// The body of the error.
const INTERNAL: &str = concat!(
    r#"{"error":"internal error: the task was aborted","code":"internal","#,
    r#""params":{"reason":"internal error: the task was aborted"}}"#
);

/// Routes that panic before and within their response.
fn panicking() -> Router<Server> {
    /// Events that panic after the first.
    struct Broken(bool);
    impl Events for Broken {
        type Event = u8;

        async fn next(&mut self) -> Option<u8> {
            assert!(!std::mem::replace(&mut self.0, true), "the second event panics");
            Some(1)
        }
    }
    async fn stream(State(server): State<Server>) -> Response<Body> {
        ndjson::stream(Broken(false), server.activity().begin(), Ok)
    }
    async fn task() -> Result<(), error::ApiError> {
        error::blocking(|| panic!("a task panics")).await
    }
    async fn handler() {
        panic!("a handler panics");
    }
    Router::new().route("/api/tags", get(handler)).route("/api/ps", get(task)).route("/api/version", get(stream))
}

#[tokio::test]
async fn panic_is_an_internal_error_and_the_connection_stays_usable() {
    let daemon = Daemon::start();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let peer = axum::Extension(ConnectInfo(address));
    let router = with_layers(panicking(), daemon.server.clone()).layer(peer);
    let served = tokio::spawn(async move { axum::serve(listener, router).await });
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    for path in ["/api/tags", "/api/ps", "/api/tags"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        while !response.ends_with(INTERNAL) {
            let mut bytes = [0; 1024];
            let read = stream.read(&mut bytes).await.unwrap();
            assert!(read > 0, "{path}: the connection ended: {response:?}");
            response += std::str::from_utf8(&bytes[..read]).expect("the response is ASCII");
        }
        assert!(response.starts_with("HTTP/1.1 500 ") && response.contains("nosniff"), "{path}: {response}");
    }
    served.abort();
}

#[tokio::test]
async fn stream_that_panics_ends_with_an_error() {
    let mut daemon = Daemon::start();
    daemon.router = with_layers(panicking(), daemon.server.clone());
    let reply = daemon.get("/api/version").await;
    assert_eq!(reply, format!("200 application/x-ndjson\n1\n{INTERNAL}\n"), "the response is not complete");
}
