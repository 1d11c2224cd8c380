//! Ranges of blobs from servers that keep their word, and from those that do not.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::Response;
use cairn_store::Digest;

use crate::served::{Seen, Served, model, reply};
use crate::{BlobSource, SignIn, SourceError};

const BLOB: &[u8] = b"0123456789abcdefghij";

/// What came, and where it begins.
async fn read(source: &dyn BlobSource, range: Range<u64>) -> Result<(u64, Vec<u8>), SourceError> {
    let mut opened = source.open(&Digest::of(BLOB), BLOB.len() as u64, range).await?;
    let mut bytes = Vec::new();
    while let Some(more) = opened.body.next().await? {
        bytes.extend_from_slice(&more);
    }
    Ok((opened.offset, bytes))
}

/// Reads bytes 5 to 9 from a server that answers so.
async fn five_to_nine(
    answer: impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static,
) -> Result<(u64, Vec<u8>), SourceError> {
    let served = Served::by(answer).await;
    read(&*served.registry(SignIn::anonymous()).blobs(&model()), 5..10).await
}

async fn broken(what: &str, answer: impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static) -> String {
    match five_to_nine(answer).await {
        Err(SourceError::Broken { reason, .. }) => reason,
        other => panic!("{what} must be Broken: {other:?}"),
    }
}

fn chunked(parts: &[&'static [u8]]) -> Body {
    let parts: Vec<_> = parts.iter().map(|part| Ok::<_, std::io::Error>(*part)).collect();
    Body::from_stream(tokio_stream::iter(parts))
}

#[tokio::test]
async fn a_range_is_a_range() {
    let served = Served::by(|_| reply(206, &[("Content-Range", "bytes 5-9/20")], &BLOB[5..10])).await;
    let source = served.registry(SignIn::anonymous()).blobs(&model());
    assert_eq!(read(&*source, 5..10).await.unwrap(), (5, BLOB[5..10].to_vec()), "the bytes asked for");
    assert_eq!(source.host(), served.place, "it says who it is");
    let seen = served.seen();
    assert_eq!(seen[0].line(), format!("GET /v2/library/m/blobs/{}", Digest::of(BLOB)), "the blob's address");
    assert_eq!(seen[0].header("range"), Some("bytes=5-9"), "both ends belong to it");
    assert_eq!(seen[0].header("authorization"), None, "nobody asked who we are");
}

#[tokio::test]
async fn part_of_a_range_is_fine() {
    let got = five_to_nine(|_| reply(206, &[("Content-Range", "bytes 5-6/*")], &BLOB[5..7])).await.unwrap();
    assert_eq!(got, (5, BLOB[5..7].to_vec()), "a server may send less than was asked for");
}

#[tokio::test]
async fn a_server_without_ranges_sends_everything() {
    let got = five_to_nine(|_| reply(200, &[], BLOB)).await.unwrap();
    assert_eq!(got, (0, BLOB.to_vec()), "from the beginning");
}

#[tokio::test]
async fn nothing_is_asked_for_without_a_range() {
    let served = Served::by(|_| reply(200, &[], "")).await;
    let source = served.registry(SignIn::anonymous()).blobs(&model());
    let mut opened = source.open(&Digest::of(b""), 0, 0..0).await.unwrap();
    assert!(opened.body.next().await.unwrap().is_none(), "an empty blob");
    assert_eq!(served.seen()[0].header("range"), None, "a range of nothing cannot be written");
}

#[tokio::test]
async fn what_a_server_says_of_its_answer_must_fit() {
    for range in ["bytes 6-10/20", "bytes 5-10/20", "bytes 5-9/21", "bytes */20", "rubbish", ""] {
        let said = broken(range, move |_| reply(206, &[("Content-Range", range)], &BLOB[5..10])).await;
        assert!(said.contains("5-9/20") && said.contains(range), "{said}");
    }
    let said = broken("no Content-Range", |_| reply(206, &[], &BLOB[5..10])).await;
    assert!(said.contains("5-9/20"), "{said}");
    let said = broken("a short range", |_| reply(206, &[("Content-Range", "bytes 5-9/20")], &BLOB[5..8])).await;
    assert!(said.contains("3 bytes") && said.contains('5'), "{said}");
    let said = broken("another blob", |_| reply(200, &[], &BLOB[1..])).await;
    assert!(said.contains("19 bytes") && said.contains("20"), "{said}");
    let said = broken("416", |_| reply(416, &[("Content-Range", "bytes */4")], "")).await;
    assert!(said.contains("*/4"), "{said}");
}

#[tokio::test]
async fn what_a_server_sends_must_be_what_it_said() {
    let long = |_: &Seen| reply(206, &[("Content-Range", "bytes 5-9/20")], chunked(&[b"567", b"89a"]));
    let said = broken("a body that is too long", long).await;
    assert!(said.contains("more than the 5 bytes"), "{said}");
    let short = |_: &Seen| reply(206, &[("Content-Range", "bytes 5-9/20")], chunked(&[b"567"]));
    let said = broken("a body that is too short", short).await;
    assert!(said.contains("after 3 of 5 bytes"), "{said}");
    let cut = |_: &Seen| {
        let parts = [Ok(&b"567"[..]), Err(std::io::Error::other("the test cuts it off"))];
        reply(206, &[("Content-Range", "bytes 5-9/20")], Body::from_stream(tokio_stream::iter(parts)))
    };
    broken("a connection that is cut", cut).await;
}

#[tokio::test]
async fn a_file_that_changes_is_noticed() {
    let times = AtomicUsize::new(0);
    let served = Served::by(move |_| {
        let etag = if times.fetch_add(1, Ordering::Relaxed) < 2 { "\"a\"" } else { "\"b\"" };
        reply(206, &[("Content-Range", "bytes 5-9/20"), ("ETag", etag)], &BLOB[5..10])
    })
    .await;
    let source = served.registry(SignIn::anonymous()).blobs(&model());
    for _ in 0..2 {
        read(&*source, 5..10).await.expect("the same file");
    }
    let changed = read(&*source, 5..10).await;
    assert!(matches!(&changed, Err(SourceError::Broken { reason, .. }) if reason.contains("changed")), "{changed:?}");
    read(&*source, 5..10).await.expect("the next try begins with the new file");
}

#[tokio::test]
async fn sizes_are_asked_for() {
    let served = Served::by(|seen| match seen.target.ends_with(&Digest::of(BLOB).to_string()) {
        true => reply(200, &[], BLOB),
        false => reply(404, &[], ""),
    })
    .await;
    let registry = served.registry(SignIn::anonymous());
    assert_eq!(registry.blob_size(&model(), &Digest::of(BLOB)).await.unwrap(), Some(20), "it is there");
    assert_eq!(registry.blob_size(&model(), &Digest::of(b"")).await.unwrap(), None, "it is not");
    assert!(served.lines().iter().all(|line| line.starts_with("HEAD ")), "without the bytes: {:?}", served.lines());
}
