//! Registries that store parts themselves, as in the OCI specification.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Response;
use cairn_store::Digest;

use super::{Model, push};
use crate::tests::test_server::{RecordedRequest, TestServer, model, reply};
use crate::{Credentials, PushError, SourceError};

const CONFIG: &[u8] = b"{}";
const WEIGHTS: &[u8] = b"0123456789abcdefghijABCDE";

/// The state of a test registry.
#[derive(Default)]
struct RegistryState {
    blobs: HashMap<String, Vec<u8>>,
    open: Vec<u8>,
    manifest: Vec<u8>,
    patches: usize,
}

/// A registry that accepts the parts of one blob sequentially, each at its own URL.
fn default_response(state: &mut RegistryState, seen: &RecordedRequest) -> Response<Body> {
    let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
    let digest = path.rsplit('/').next().unwrap_or_default().to_owned();
    match seen.method.as_str() {
        "HEAD" => reply(if state.blobs.contains_key(&digest) { 200 } else { 404 }, &[], ""),
        "POST" => {
            state.open.clear();
            state.patches = 0;
            reply(202, &[("Location", "/upload/0?state=a")], "")
        }
        "PATCH" => {
            let (first, last) = seen.header("content-range").unwrap().split_once('-').unwrap();
            let length = last.parse::<usize>().unwrap() + 1 - first.parse::<usize>().unwrap();
            let is_expected = path == format!("/upload/{}", state.patches) && first == state.open.len().to_string();
            if !is_expected || length != seen.body.len() {
                return reply(416, &[], "");
            }
            state.open.extend_from_slice(&seen.body);
            state.patches += 1;
            // The URL may be absolute and in another header.
            let next = format!("http://{}/upload/{}?state=b", seen.header("host").unwrap(), state.patches);
            let header = if state.patches == 1 { "Docker-Upload-Location" } else { "Location" };
            reply(202, &[(header, &next)], "")
        }
        "PUT" if path.contains("/manifests/") => {
            state.manifest = seen.body.to_vec();
            reply(201, &[("Docker-Content-Digest", &Digest::of(&seen.body).to_string())], "")
        }
        "PUT" => {
            let named = query.split('&').find_map(|pair| pair.strip_prefix("digest=")).unwrap().replace("%3A", ":");
            let right = named == Digest::of(&state.open).to_string();
            state.blobs.insert(named, std::mem::take(&mut state.open));
            reply(if right { 201 } else { 400 }, &[], "")
        }
        _ => reply(405, &[], ""),
    }
}

/// A registry that responds with `first`, or with the default response if `first` returns `None`.
async fn registry(
    first: impl Fn(&mut RegistryState, &RecordedRequest) -> Option<Response<Body>> + Send + Sync + 'static,
) -> (TestServer, Arc<Mutex<RegistryState>>) {
    let state = Arc::new(Mutex::new(RegistryState::default()));
    let own = Arc::clone(&state);
    let served = TestServer::start(move |seen| {
        let mut state = own.lock().unwrap();
        first(&mut state, seen).unwrap_or_else(|| default_response(&mut state, seen))
    })
    .await;
    (served, state)
}

/// Pushes the test model to this registry and checks that it is complete there.
async fn check(
    first: impl Fn(&mut RegistryState, &RecordedRequest) -> Option<Response<Body>> + Send + Sync + 'static,
) -> TestServer {
    let (served, state) = registry(first).await;
    let model_ = Model::of(&[CONFIG, WEIGHTS]);
    push(&served, &model_, Credentials::anonymous()).await.unwrap();
    let state = state.lock().unwrap();
    for blob in [CONFIG, WEIGHTS] {
        assert_eq!(state.blobs.get(&Digest::of(blob).to_string()).map(Vec::as_slice), Some(blob), "the whole blob");
    }
    assert_eq!(state.manifest, model_.manifest, "the manifest, byte for byte");
    served
}

/// Pushes to this registry and returns the error.
async fn error(
    first: impl Fn(&mut RegistryState, &RecordedRequest) -> Option<Response<Body>> + Send + Sync + 'static,
) -> (SourceError, TestServer) {
    let (served, _) = registry(first).await;
    match push(&served, &Model::of(&[CONFIG, WEIGHTS]), Credentials::anonymous()).await {
        Err(PushError::Registry(error)) => (error, served),
        other => panic!("expected an error, got {other:?}"),
    }
}

fn count(served: &TestServer, method: &str) -> usize {
    served.request_lines().iter().filter(|line| line.starts_with(method)).count()
}

#[tokio::test]
async fn parts_are_sent_sequentially() {
    let served = check(|_, _| None).await;
    let hex = Digest::of(WEIGHTS).hex();
    let lines = served.request_lines();
    let expected = [
        format!("HEAD /v2/library/m/blobs/sha256:{hex}"),
        "POST /v2/library/m/blobs/uploads/".to_owned(),
        "PATCH /upload/0?state=a".to_owned(),
        "PATCH /upload/1?state=b".to_owned(),
        "PATCH /upload/2?state=b".to_owned(),
        // The etag was computed with md5sum.
        format!("PUT /upload/3?state=b&digest=sha256%3A{hex}&etag=612f5cb1e3fb16a7599212e4ca24185a-3"),
    ];
    assert_eq!(lines[..6], expected, "{lines:?}");
    assert_eq!(lines.last().unwrap(), "PUT /v2/library/m/manifests/latest", "the manifest is sent last: {lines:?}");
    let seen = served.requests();
    assert_eq!(seen[2].header("content-range"), Some("0-9"), "the range has no unit");
    assert_eq!(seen[4].header("content-range"), Some("20-24"), "the last part");
    assert_eq!(seen[4].header("content-length"), Some("5"), "not chunked");
    assert_eq!(seen[4].header("x-redirect-uploads"), Some("1"), "direct URLs are supported");
    assert_eq!(seen[5].header("content-length"), Some("0"), "a commit has no body");
    let kind = seen.last().unwrap().header("content-type");
    assert_eq!(kind, Some("application/vnd.docker.distribution.manifest.v2+json"), "the media type of the manifest");
}

#[tokio::test]
async fn existing_blob_is_not_uploaded() {
    let (served, state) = registry(|_, _| None).await;
    for blob in [CONFIG, WEIGHTS] {
        state.lock().unwrap().blobs.insert(Digest::of(blob).to_string(), blob.to_vec());
    }
    push(&served, &Model::of(&[CONFIG, WEIGHTS]), Credentials::anonymous()).await.unwrap();
    assert_eq!(
        (count(&served, "HEAD"), served.requests().len()),
        (2, 3),
        "only the manifest is sent: {:?}",
        served.request_lines()
    );
}

#[tokio::test]
async fn blob_is_mounted_from_repository_in_manifest() {
    let hex = Digest::of(WEIGHTS).hex();
    let check = async |from: &str, query: &str| {
        let (served, _state) = registry(|_, seen| seen.target.contains("mount=").then(|| reply(201, &[], ""))).await;
        let model_ = Model::of(&[CONFIG, WEIGHTS]);
        let from = from.replace("HOST", &served.address);
        let manifest = format!(r#"{{"layers":[{{"digest":"sha256:{hex}","size":25,"from":"{from}"}}]}}"#);
        let name = format!("{}/library/m:latest", served.address).parse().unwrap();
        let (watcher, steps) = super::watcher();
        let registry = served.registry(Credentials::anonymous());
        let library = model_.library();
        registry.push(&name, manifest.as_bytes(), &library, &super::config(), &watcher).await.unwrap();
        assert_eq!(served.request_lines()[1], format!("POST /v2/library/m/blobs/uploads/{query}"), "{from:?}");
        assert_eq!(count(&served, "PATCH"), if query.is_empty() { 3 } else { 0 }, "parts, for {from:?}");
        assert!(steps.lock().unwrap().len() >= 2, "the blob and the manifest are reported: {steps:?}");
    };
    check("HOST/some/base:1b", &format!("?mount=sha256%3A{hex}&from=some%2Fbase")).await;
    check("elsewhere.example/some/base", "").await;
    check("/home/me/model.gguf", "").await;
    check("", "").await;
}

#[tokio::test]
async fn token_that_expires_during_upload_is_replaced() {
    let served = check(|state, seen| {
        // The first token is valid until the first part is stored, then the second.
        let valid_token = if state.patches == 0 { "t0" } else { "t1" };
        if seen.target.starts_with("/token") {
            return Some(reply(200, &[], format!("{{\"token\":\"{valid_token}\"}}")));
        }
        if seen.header("authorization") == Some(&format!("Bearer {valid_token}")) || seen.method == "PUT" {
            return None;
        }
        let host = seen.header("host").unwrap();
        let challenge = format!("Bearer realm=\"http://{host}/token\",scope=\"repository:library/m:pull,push\"");
        Some(reply(401, &[("WWW-Authenticate", &challenge)], ""))
    })
    .await;
    let tokens: Vec<_> = served.request_lines().into_iter().filter(|line| line.contains("/token")).collect();
    assert!(tokens.len() >= 2 && tokens.iter().all(|line| line.contains("pull%2Cpush")), "{tokens:?}");
}

#[tokio::test]
async fn retryable_errors_are_retried() {
    let left = Mutex::new(HashMap::from([("HEAD", 1_u32), ("POST", 2), ("PATCH", 2), ("PUT", 2)]));
    let served = check(move |_, seen| {
        let mut left = left.lock().unwrap();
        let left = left.get_mut(seen.method.as_str()).unwrap();
        *left = left.checked_sub(1)?;
        Some(if *left == 0 { reply(500, &[], "") } else { reply(429, &[("Retry-After", "0")], "") })
    })
    .await;
    assert_eq!(count(&served, "HEAD"), 3, "one retry: {:?}", served.request_lines());
}

#[tokio::test]
async fn lost_session_is_restarted() {
    let lost = Mutex::new(false);
    let served = check(move |state, seen| {
        let mut lost = lost.lock().unwrap();
        (seen.method == "PATCH" && state.patches == 1 && !*lost).then(|| {
            *lost = true;
            reply(404, &[], "upload unknown")
        })
    })
    .await;
    assert_eq!(count(&served, "POST"), 3, "one session is restarted");
}

#[tokio::test]
async fn commit_with_lost_response_succeeds() {
    let commits = Mutex::new(0);
    let served = check(move |state, seen| {
        let commit = seen.method == "PUT" && !seen.target.contains("/manifests/");
        let mut commits = commits.lock().unwrap();
        *commits += usize::from(commit);
        match *commits {
            1 if commit => {
                default_response(state, seen);
                Some(reply(502, &[], ""))
            }
            2 if commit => Some(reply(404, &[], "upload unknown")),
            _ => None,
        }
    })
    .await;
    assert_eq!(count(&served, "POST"), 2, "no blob is sent twice");
}

#[tokio::test]
async fn permanent_errors_end_push() {
    let (got, _) = error(|_, seen| (seen.method == "POST").then(|| reply(403, &[], "not yours"))).await;
    assert!(matches!(&got, SourceError::Refused { reason, .. } if reason.contains("not yours")), "{got:?}");

    let (got, served) = error(|_, seen| (seen.method == "PATCH").then(|| reply(500, &[], ""))).await;
    assert!(matches!(got, SourceError::Broken { .. }), "{got:?}");
    assert_eq!(count(&served, "PATCH"), 3, "all attempts are used");

    let (got, served) = error(|_, seen| (seen.method == "PATCH").then(|| reply(404, &[], ""))).await;
    assert!(matches!(got, SourceError::Broken { .. }), "{got:?}");
    assert_eq!(count(&served, "POST"), 4, "a session that is always lost is restarted three times");

    let other = Digest::of(b"").to_string();
    let (got, _) = error(move |_, seen| {
        seen.target.contains("/manifests/").then(|| reply(201, &[("Docker-Content-Digest", &other)], ""))
    })
    .await;
    assert!(matches!(got, SourceError::Refused { .. }), "another digest in the response is an error: {got:?}");
}

#[tokio::test]
async fn incomplete_model_is_not_sent() {
    let (served, _) = registry(|_, _| None).await;
    let model_ = Model::of(&[CONFIG, WEIGHTS]);
    std::fs::remove_file(model_.blob_path(WEIGHTS)).unwrap();
    let got = push(&served, &model_, Credentials::anonymous()).await;
    assert!(matches!(got, Err(PushError::Library(_))), "{got:?}");
    let (watcher, _) = super::watcher();
    let registry = served.registry(Credentials::anonymous());
    let got = registry.push(&model(), b"[]", &model_.library(), &super::config(), &watcher).await;
    assert!(matches!(got, Err(PushError::Manifest(_))), "{got:?}");
    assert!(served.requests().is_empty(), "no request was sent: {:?}", served.request_lines());
}

#[tokio::test]
async fn empty_blob_is_uploaded() {
    let (served, state) = registry(|_, _| None).await;
    push(&served, &Model::of(&[CONFIG, b""]), Credentials::anonymous()).await.unwrap();
    assert!(
        state.lock().unwrap().blobs.contains_key(&Digest::of(b"").to_string()),
        "the empty blob is committed without parts"
    );
}
