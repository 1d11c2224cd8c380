//! Registries that redirect parts to an object store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cairn_store::Digest;

use super::{Model, push};
use crate::tests::test_server::{TestServer, reply};
use crate::{Credentials, PushError, SourceError};

const WEIGHTS: &[u8] = b"0123456789abcdefghijABCDE";

type Parts = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A registry that requires a password, its object store, and the stored parts.
async fn pair() -> (TestServer, TestServer, Parts) {
    let parts = Parts::default();
    let (own, request_count) = (Arc::clone(&parts), AtomicUsize::new(0));
    let store = TestServer::start(move |seen| {
        // The first request fails.
        if request_count.fetch_add(1, Ordering::Relaxed) == 0 {
            return reply(500, &[], "");
        }
        own.lock().unwrap().insert(seen.target.clone(), seen.body.to_vec());
        reply(200, &[], "")
    })
    .await;
    let target = store.url("/object/");
    let registry = TestServer::start(move |seen| {
        if seen.header("authorization").is_none() {
            return reply(401, &[("WWW-Authenticate", "Basic realm=\"x\"")], "");
        }
        let path = seen.target.split('?').next().unwrap();
        match seen.method.as_str() {
            "HEAD" => reply(404, &[], ""),
            "POST" => reply(202, &[("Location", "/upload/0")], ""),
            "PATCH" => {
                let number: usize = path.strip_prefix("/upload/").unwrap().parse().unwrap();
                let range = seen.header("content-range").unwrap();
                let (direct, next) = (format!("{target}{range}?signature=s"), format!("/upload/{}", number + 1));
                reply(307, &[("Location", &direct), ("Docker-Upload-Location", &next)], "")
            }
            _ => reply(201, &[], ""),
        }
    })
    .await;
    (registry, store, parts)
}

#[tokio::test]
async fn parts_are_sent_to_direct_urls_without_credentials() {
    let (registry, store, parts) = pair().await;
    push(&registry, &Model::of(&[WEIGHTS, WEIGHTS]), Credentials::password("u", "p")).await.unwrap();
    let expected = [("0-9", &WEIGHTS[..10]), ("10-19", &WEIGHTS[10..20]), ("20-24", &WEIGHTS[20..])];
    let expected = expected.map(|(range, bytes)| (format!("/object/{range}?signature=s"), bytes.to_vec()));
    assert_eq!(*parts.lock().unwrap(), BTreeMap::from(expected), "each part at its own URL");
    for seen in store.requests() {
        assert_eq!(seen.header("authorization"), None, "the URL contains its own authorization");
        assert_eq!(seen.method, "PUT", "{}", seen.line());
    }
    assert_eq!(store.requests().len(), 4, "one part is retried: {:?}", store.request_lines());
    let commit = registry
        .request_lines()
        .into_iter()
        .find(|line| line.starts_with("PUT /upload/3"))
        .expect("the commit at the last URL");
    // The etag was computed with md5sum.
    let expected = format!("digest=sha256%3A{}&etag=612f5cb1e3fb16a7599212e4ca24185a-3", Digest::of(WEIGHTS).hex());
    assert!(commit.ends_with(&expected), "{commit}");
}

#[tokio::test]
async fn invalid_direct_url_is_refused() {
    for location in [None, Some("ftp://h/x"), Some("http://")] {
        let served = TestServer::start(move |seen| match seen.method.as_str() {
            "HEAD" => reply(404, &[], ""),
            "POST" => reply(202, &[("Location", "/upload/0")], ""),
            _ => reply(307, &location.map(|location| ("Location", location)).into_iter().collect::<Vec<_>>(), ""),
        })
        .await;
        let got = push(&served, &Model::of(&[WEIGHTS, WEIGHTS]), Credentials::anonymous()).await;
        assert!(matches!(got, Err(PushError::Registry(SourceError::Refused { .. }))), "{location:?}: {got:?}");
    }
}
