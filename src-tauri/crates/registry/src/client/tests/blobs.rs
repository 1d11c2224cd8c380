//! Range requests to correct and misbehaving servers.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::Response;
use cairn_store::Digest;

use crate::tests::test_server::{RecordedRequest, TestServer, model, reply};
use crate::{BlobSource, Credentials, SourceError};

const BLOB: &[u8] = b"0123456789abcdefghij";

/// Reads a range and returns the offset and the bytes.
async fn read(source: &dyn BlobSource, range: Range<u64>) -> Result<(u64, Vec<u8>), SourceError> {
    let mut opened = source.open(&Digest::of(BLOB), BLOB.len() as u64, range).await?;
    let mut bytes = Vec::new();
    while let Some(more) = opened.body.next().await? {
        bytes.extend_from_slice(&more);
    }
    Ok((opened.offset, bytes))
}

/// Requests bytes 5 to 9 from a server with this response.
async fn read_five_to_nine(
    answer: impl Fn(&RecordedRequest) -> Response<Body> + Send + Sync + 'static,
) -> Result<(u64, Vec<u8>), SourceError> {
    let served = TestServer::start(answer).await;
    read(&*served.registry(Credentials::anonymous()).blobs(&model()), 5..10).await
}

async fn broken(what: &str, answer: impl Fn(&RecordedRequest) -> Response<Body> + Send + Sync + 'static) -> String {
    match read_five_to_nine(answer).await {
        Err(SourceError::Broken { reason, .. }) => reason,
        other => panic!("{what}: expected Broken, got {other:?}"),
    }
}

fn chunked(parts: &[&'static [u8]]) -> Body {
    let parts: Vec<_> = parts.iter().map(|part| Ok::<_, std::io::Error>(*part)).collect();
    Body::from_stream(tokio_stream::iter(parts))
}

#[tokio::test]
async fn requested_range_is_returned() {
    let served = TestServer::start(|_| reply(206, &[("Content-Range", "bytes 5-9/20")], &BLOB[5..10])).await;
    let source = served.registry(Credentials::anonymous()).blobs(&model());
    assert_eq!(read(&*source, 5..10).await.unwrap(), (5, BLOB[5..10].to_vec()), "the requested bytes");
    assert_eq!(source.host(), served.address, "the host of the server");
    let seen = served.requests();
    assert_eq!(seen[0].line(), format!("GET /v2/library/m/blobs/{}", Digest::of(BLOB)), "the URL of the blob");
    assert_eq!(seen[0].header("range"), Some("bytes=5-9"), "the range includes both ends");
    assert_eq!(seen[0].header("authorization"), None, "no credentials without a challenge");
}

#[tokio::test]
async fn shorter_range_is_accepted() {
    let got = read_five_to_nine(|_| reply(206, &[("Content-Range", "bytes 5-6/*")], &BLOB[5..7])).await.unwrap();
    assert_eq!(got, (5, BLOB[5..7].to_vec()), "a server may send less than requested");
}

#[tokio::test]
async fn server_without_ranges_sends_whole_blob() {
    let got = read_five_to_nine(|_| reply(200, &[], BLOB)).await.unwrap();
    assert_eq!(got, (0, BLOB.to_vec()), "from offset 0");
}

#[tokio::test]
async fn empty_range_is_requested_without_range_header() {
    let served = TestServer::start(|_| reply(200, &[], "")).await;
    let source = served.registry(Credentials::anonymous()).blobs(&model());
    let mut opened = source.open(&Digest::of(b""), 0, 0..0).await.unwrap();
    assert!(opened.body.next().await.unwrap().is_none(), "an empty blob");
    assert_eq!(served.requests()[0].header("range"), None, "HTTP has no empty range");
}

#[tokio::test]
async fn response_headers_must_match_request() {
    for range in ["bytes 6-10/20", "bytes 5-10/20", "bytes 5-9/21", "bytes */20", "rubbish", ""] {
        let reason = broken(range, move |_| reply(206, &[("Content-Range", range)], &BLOB[5..10])).await;
        assert!(reason.contains("5-9/20") && reason.contains(range), "{reason}");
    }
    let reason = broken("no Content-Range", |_| reply(206, &[], &BLOB[5..10])).await;
    assert!(reason.contains("5-9/20"), "{reason}");
    let reason = broken("a short range", |_| reply(206, &[("Content-Range", "bytes 5-9/20")], &BLOB[5..8])).await;
    assert!(reason.contains("3 bytes") && reason.contains('5'), "{reason}");
    let reason = broken("another blob", |_| reply(200, &[], &BLOB[1..])).await;
    assert!(reason.contains("19 bytes") && reason.contains("20"), "{reason}");
    let reason = broken("416", |_| reply(416, &[("Content-Range", "bytes */4")], "")).await;
    assert!(reason.contains("*/4"), "{reason}");
}

#[tokio::test]
async fn body_must_match_response_headers() {
    let long = |_: &RecordedRequest| reply(206, &[("Content-Range", "bytes 5-9/20")], chunked(&[b"567", b"89a"]));
    let reason = broken("a body that is too long", long).await;
    assert!(reason.contains("more than the expected 5 bytes"), "{reason}");
    let short = |_: &RecordedRequest| reply(206, &[("Content-Range", "bytes 5-9/20")], chunked(&[b"567"]));
    let reason = broken("a body that is too short", short).await;
    assert!(reason.contains("after 3 of 5 bytes"), "{reason}");
    let cut = |_: &RecordedRequest| {
        let parts = [Ok(&b"567"[..]), Err(std::io::Error::other("connection reset by the test"))];
        reply(206, &[("Content-Range", "bytes 5-9/20")], Body::from_stream(tokio_stream::iter(parts)))
    };
    broken("a connection that is cut", cut).await;
}

#[tokio::test]
async fn changed_etag_is_an_error_once() {
    let times = AtomicUsize::new(0);
    let served = TestServer::start(move |_| {
        let etag = if times.fetch_add(1, Ordering::Relaxed) < 2 { "\"a\"" } else { "\"b\"" };
        reply(206, &[("Content-Range", "bytes 5-9/20"), ("ETag", etag)], &BLOB[5..10])
    })
    .await;
    let source = served.registry(Credentials::anonymous()).blobs(&model());
    for _ in 0..2 {
        read(&*source, 5..10).await.expect("the same file");
    }
    let changed = read(&*source, 5..10).await;
    assert!(matches!(&changed, Err(SourceError::Broken { reason, .. }) if reason.contains("changed")), "{changed:?}");
    read(&*source, 5..10).await.expect("the retry starts with the new file");
}

#[tokio::test]
async fn blob_size_is_requested_by_head() {
    let served = TestServer::start(|seen| match seen.target.ends_with(&Digest::of(BLOB).to_string()) {
        true => reply(200, &[], BLOB),
        false => reply(404, &[], ""),
    })
    .await;
    let registry = served.registry(Credentials::anonymous());
    assert_eq!(registry.blob_size(&model(), &Digest::of(BLOB)).await.unwrap(), Some(20), "an existing blob");
    assert_eq!(registry.blob_size(&model(), &Digest::of(b"")).await.unwrap(), None, "a missing blob");
    assert!(
        served.request_lines().iter().all(|line| line.starts_with("HEAD ")),
        "HEAD requests only: {:?}",
        served.request_lines()
    );
}
