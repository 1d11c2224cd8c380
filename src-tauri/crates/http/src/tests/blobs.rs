//! Tests of blob uploads.

use tokio_stream::StreamExt;

use super::*;

#[tokio::test]
async fn upload_is_stored_if_its_digest_matches() {
    let daemon = Daemon::start();
    let digest = cairn_store::Digest::of(b"contents");
    let send = async |method: &str, name: &str, body: &'static str| {
        let request = Request::builder().method(method).uri(format!("/api/blobs/{name}"));
        let reply = daemon.reply(request.body(Body::from(body)).unwrap()).await;
        (reply[..3].to_owned(), reply[4..].to_owned())
    };
    let check = async |method: &str, name: &str, body: &'static str, status: &str, part: &str| {
        let reply = send(method, name, body).await;
        assert!(reply.0 == status && reply.1.contains(part), "{method} {name} with {body:?}: {reply:?}");
    };
    let name = digest.to_string();
    check("HEAD", &name, "", "404", "").await;
    check("POST", &name, "content", "400", "digest mismatch, expected").await;
    check("HEAD", &name, "", "404", "").await;
    check("POST", &name, "contents", "201", "").await;
    check("HEAD", &name, "", "200", "").await;
    check("POST", &name, "a second upload is ignored", "200", "").await;
    check("GET", &name, "", "405", "").await;
    for wrong in ["sha256:00", "md5", "sha256:..%2f..%2f..%2fetc%2fpasswd", "%00"] {
        check("HEAD", wrong, "", "400", "").await;
        check("POST", wrong, "contents", "400", "invalid digest format").await;
    }
    let blob = daemon.folder.path().join("models/blobs").join(digest.file_name());
    assert_eq!(std::fs::read(blob).unwrap(), b"contents", "byte for byte");
}

#[tokio::test]
async fn upload_that_is_interrupted_leaves_no_file() {
    let daemon = Daemon::start();
    let files = || std::fs::read_dir(daemon.folder.path().join("models/blobs")).unwrap().count();
    let before = files();
    let digest = cairn_store::Digest::of(b"contents");
    let broken = tokio_stream::iter([Ok::<_, std::io::Error>("cont"), Err(std::io::Error::other("connection lost"))]);
    let request = Request::post(format!("/api/blobs/{digest}")).body(Body::from_stream(broken)).unwrap();
    let reply = daemon.reply(request).await;
    assert!(reply.starts_with("400") && reply.contains("the upload was interrupted"), "{reply}");
    let since = Instant::now();
    while files() != before {
        assert!(since.elapsed() < Duration::from_secs(20), "a staged file remains");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn upload_can_exceed_the_body_limit() {
    let daemon = Daemon::start();
    let chunk = axum::body::Bytes::from(vec![7; 8 << 20]);
    let count = (256 << 20) / chunk.len() + 1;
    let whole = chunk.repeat(count);
    let digest = cairn_store::Digest::of(&whole);
    drop(whole);
    let chunks = tokio_stream::iter(vec![chunk; count]).map(Ok::<_, std::io::Error>);
    let request = Request::post(format!("/api/blobs/{digest}")).body(Body::from_stream(chunks)).unwrap();
    assert_eq!(daemon.send(request).await.status(), StatusCode::CREATED, "uploads have no body limit");
}

#[tokio::test]
async fn upload_from_foreign_page_is_rejected() {
    let daemon = Daemon::start();
    let digest = cairn_store::Digest::of(b"contents");
    let request = Request::post(format!("/api/blobs/{digest}")).header(header::ORIGIN, "https://example.org");
    let response = daemon.send(request.body(Body::from("contents")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::FORBIDDEN, "a foreign origin");
    assert!(daemon.server.app().library().blob_size(&digest.to_string()).unwrap().is_none(), "no blob is stored");
}
