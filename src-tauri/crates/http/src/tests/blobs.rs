//! Contents that clients send.

use tokio_stream::StreamExt;

use super::*;

#[tokio::test]
async fn contents_are_taken_if_they_have_their_digest() {
    let daemon = Daemon::start();
    let digest = cairn_store::Digest::of(b"contents");
    let ask = async |method: &str, name: &str, body: &'static str| {
        let request = Request::builder().method(method).uri(format!("/api/blobs/{name}"));
        let heard = daemon.heard(request.body(Body::from(body)).unwrap()).await;
        (heard[..3].to_owned(), heard[4..].to_owned())
    };
    let check = async |method: &str, name: &str, body: &'static str, status: &str, part: &str| {
        let heard = ask(method, name, body).await;
        assert!(heard.0 == status && heard.1.contains(part), "{method} {name} with {body:?}: {heard:?}");
    };
    let name = digest.to_string();
    check("HEAD", &name, "", "404", "").await;
    check("POST", &name, "content", "400", "digest mismatch, expected").await;
    check("HEAD", &name, "", "404", "").await;
    check("POST", &name, "contents", "201", "").await;
    check("HEAD", &name, "", "200", "").await;
    check("POST", &name, "what was sent is not looked at", "200", "").await;
    check("GET", &name, "", "405", "").await;
    for wrong in ["sha256:00", "md5", "sha256:..%2f..%2f..%2fetc%2fpasswd", "%00"] {
        check("HEAD", wrong, "", "400", "").await;
        check("POST", wrong, "contents", "400", "invalid digest format").await;
    }
    let blob = daemon.folder.path().join("models/blobs").join(digest.file_name());
    assert_eq!(std::fs::read(blob).unwrap(), b"contents", "byte for byte");
}

#[tokio::test]
async fn contents_that_break_off_leave_nothing() {
    let daemon = Daemon::start();
    let files = || std::fs::read_dir(daemon.folder.path().join("models/blobs")).unwrap().count();
    let before = files();
    let digest = cairn_store::Digest::of(b"contents");
    let broken = tokio_stream::iter([Ok::<_, std::io::Error>("cont"), Err(std::io::Error::other("the line is dead"))]);
    let request = Request::post(format!("/api/blobs/{digest}")).body(Body::from_stream(broken)).unwrap();
    let heard = daemon.heard(request).await;
    assert!(heard.starts_with("400") && heard.contains("broke off"), "{heard}");
    let since = Instant::now();
    while files() != before {
        assert!(since.elapsed() < Duration::from_secs(20), "a draft stays");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn contents_longer_than_any_request_are_taken() {
    let daemon = Daemon::start();
    let piece = axum::body::Bytes::from(vec![7; 8 << 20]);
    let count = MAX_BODY_BYTES / piece.len() + 1;
    let whole = piece.repeat(count);
    let digest = cairn_store::Digest::of(&whole);
    drop(whole);
    let pieces = tokio_stream::iter(vec![piece; count]).map(Ok::<_, std::io::Error>);
    let request = Request::post(format!("/api/blobs/{digest}")).body(Body::from_stream(pieces)).unwrap();
    assert_eq!(daemon.send(request).await.status(), StatusCode::CREATED, "a model is longer than that");
}

#[tokio::test]
async fn pages_of_strangers_send_nothing() {
    let daemon = Daemon::start();
    let digest = cairn_store::Digest::of(b"contents");
    let request = Request::post(format!("/api/blobs/{digest}")).header(header::ORIGIN, "https://example.org");
    let response = daemon.send(request.body(Body::from("contents")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::FORBIDDEN, "as for every write");
    assert!(!daemon.server.app().library().has_blob(&digest.to_string()).unwrap(), "it is not there");
}
