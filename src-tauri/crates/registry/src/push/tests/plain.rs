//! Registries that keep parts themselves, as the OCI specification has it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Response;
use cairn_store::Digest;

use super::{Model, push};
use crate::served::{Seen, Served, model, reply};
use crate::{PushError, SignIn, SourceError};

const CONFIG: &[u8] = b"{}";
const WEIGHTS: &[u8] = b"0123456789abcdefghijABCDE";

/// What a registry was given so far.
#[derive(Default)]
struct Kept {
    blobs: HashMap<String, Vec<u8>>,
    open: Vec<u8>,
    manifest: Vec<u8>,
    patches: usize,
}

/// A small registry: uploads one blob at a time, part after part, each at an address of its own.
fn ordinary(kept: &mut Kept, seen: &Seen) -> Response<Body> {
    let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
    let digest = path.rsplit('/').next().unwrap_or_default().to_owned();
    match seen.method.as_str() {
        "HEAD" => reply(if kept.blobs.contains_key(&digest) { 200 } else { 404 }, &[], ""),
        "POST" => {
            kept.open.clear();
            kept.patches = 0;
            reply(202, &[("Location", "/upload/0?state=a")], "")
        }
        "PATCH" => {
            let (first, last) = seen.header("content-range").unwrap().split_once('-').unwrap();
            let length = last.parse::<usize>().unwrap() + 1 - first.parse::<usize>().unwrap();
            let due = path == format!("/upload/{}", kept.patches) && first == kept.open.len().to_string();
            if !due || length != seen.body.len() {
                return reply(416, &[], "");
            }
            kept.open.extend_from_slice(&seen.body);
            kept.patches += 1;
            // The address may be a whole one, and in another header.
            let next = format!("http://{}/upload/{}?state=b", seen.header("host").unwrap(), kept.patches);
            let header = if kept.patches == 1 { "Docker-Upload-Location" } else { "Location" };
            reply(202, &[(header, &next)], "")
        }
        "PUT" if path.contains("/manifests/") => {
            kept.manifest = seen.body.to_vec();
            reply(201, &[("Docker-Content-Digest", &Digest::of(&seen.body).to_string())], "")
        }
        "PUT" => {
            let named = query.split('&').find_map(|pair| pair.strip_prefix("digest=")).unwrap().replace("%3A", ":");
            let right = named == Digest::of(&kept.open).to_string();
            kept.blobs.insert(named, std::mem::take(&mut kept.open));
            reply(if right { 201 } else { 400 }, &[], "")
        }
        _ => reply(405, &[], ""),
    }
}

/// A registry that answers by `first`, and as an ordinary one where that says nothing.
async fn registry(
    first: impl Fn(&mut Kept, &Seen) -> Option<Response<Body>> + Send + Sync + 'static,
) -> (Served, Arc<Mutex<Kept>>) {
    let kept = Arc::new(Mutex::new(Kept::default()));
    let own = Arc::clone(&kept);
    let served = Served::by(move |seen| {
        let mut kept = own.lock().unwrap();
        first(&mut kept, seen).unwrap_or_else(|| ordinary(&mut kept, seen))
    })
    .await;
    (served, kept)
}

/// Pushes the model of these tests to a registry that answers so, which must have all of it then.
async fn check(first: impl Fn(&mut Kept, &Seen) -> Option<Response<Body>> + Send + Sync + 'static) -> Served {
    let (served, kept) = registry(first).await;
    let model_ = Model::of(&[CONFIG, WEIGHTS]);
    push(&served, &model_, SignIn::anonymous()).await.unwrap();
    let kept = kept.lock().unwrap();
    for blob in [CONFIG, WEIGHTS] {
        assert_eq!(kept.blobs.get(&Digest::of(blob).to_string()).map(Vec::as_slice), Some(blob), "the whole blob");
    }
    assert_eq!(kept.manifest, model_.manifest, "the manifest, byte for byte");
    served
}

/// The error of a push to a registry that answers so.
async fn error(
    first: impl Fn(&mut Kept, &Seen) -> Option<Response<Body>> + Send + Sync + 'static,
) -> (SourceError, Served) {
    let (served, _) = registry(first).await;
    match push(&served, &Model::of(&[CONFIG, WEIGHTS]), SignIn::anonymous()).await {
        Err(PushError::Registry(error)) => (error, served),
        other => panic!("it must fail: {other:?}"),
    }
}

fn count(served: &Served, method: &str) -> usize {
    served.lines().iter().filter(|line| line.starts_with(method)).count()
}

#[tokio::test]
async fn parts_go_one_after_another() {
    let served = check(|_, _| None).await;
    let hex = Digest::of(WEIGHTS).hex();
    let lines = served.lines();
    let expected = [
        format!("HEAD /v2/library/m/blobs/sha256:{hex}"),
        "POST /v2/library/m/blobs/uploads/".to_owned(),
        "PATCH /upload/0?state=a".to_owned(),
        "PATCH /upload/1?state=b".to_owned(),
        "PATCH /upload/2?state=b".to_owned(),
        // The etag is md5sum's, of the sums that it gives of the three parts.
        format!("PUT /upload/3?state=b&digest=sha256%3A{hex}&etag=612f5cb1e3fb16a7599212e4ca24185a-3"),
    ];
    assert_eq!(lines[..6], expected, "{lines:?}");
    assert_eq!(lines.last().unwrap(), "PUT /v2/library/m/manifests/latest", "the manifest goes last: {lines:?}");
    let seen = served.seen();
    assert_eq!(seen[2].header("content-range"), Some("0-9"), "without a unit");
    assert_eq!(seen[4].header("content-range"), Some("20-24"), "the rest");
    assert_eq!(seen[4].header("content-length"), Some("5"), "not chunked");
    assert_eq!(seen[4].header("x-redirect-uploads"), Some("1"), "we could go elsewhere");
    assert_eq!(seen[5].header("content-length"), Some("0"), "a commit has no body");
    let kind = seen.last().unwrap().header("content-type");
    assert_eq!(kind, Some("application/vnd.docker.distribution.manifest.v2+json"), "the manifest's kind");
}

#[tokio::test]
async fn what_is_there_is_not_sent() {
    let (served, kept) = registry(|_, _| None).await;
    for blob in [CONFIG, WEIGHTS] {
        kept.lock().unwrap().blobs.insert(Digest::of(blob).to_string(), blob.to_vec());
    }
    push(&served, &Model::of(&[CONFIG, WEIGHTS]), SignIn::anonymous()).await.unwrap();
    assert_eq!((count(&served, "HEAD"), served.seen().len()), (2, 3), "only the manifest: {:?}", served.lines());
}

#[tokio::test]
async fn a_blob_is_taken_over_from_another_repository() {
    let hex = Digest::of(WEIGHTS).hex();
    let check = async |from: &str, query: &str| {
        let (served, _kept) = registry(|_, seen| seen.target.contains("mount=").then(|| reply(201, &[], ""))).await;
        let model_ = Model::of(&[CONFIG, WEIGHTS]);
        let from = from.replace("HOST", &served.place);
        let manifest = format!(r#"{{"layers":[{{"digest":"sha256:{hex}","size":25,"from":"{from}"}}]}}"#);
        let name = format!("{}/library/m:latest", served.place).parse().unwrap();
        let (watcher, told) = super::watcher();
        let registry = served.registry(SignIn::anonymous());
        let library = model_.library();
        registry.push(&name, manifest.as_bytes(), &library, &super::rules(), &watcher).await.unwrap();
        assert_eq!(served.lines()[1], format!("POST /v2/library/m/blobs/uploads/{query}"), "{from:?}");
        assert_eq!(count(&served, "PATCH"), if query.is_empty() { 3 } else { 0 }, "parts, for {from:?}");
        assert!(told.lock().unwrap().len() >= 2, "it is told as sent, and the manifest: {told:?}");
    };
    check("HOST/some/base:1b", &format!("?mount=sha256%3A{hex}&from=some%2Fbase")).await;
    check("elsewhere.example/some/base", "").await;
    check("/home/me/model.gguf", "").await;
    check("", "").await;
}

#[tokio::test]
async fn a_token_that_runs_out_is_replaced_in_the_middle() {
    let served = check(|kept, seen| {
        // Each token opens the registry until the first part is there; then another one is wanted.
        let wanted = if kept.patches == 0 { "t0" } else { "t1" };
        if seen.target.starts_with("/token") {
            return Some(reply(200, &[], format!("{{\"token\":\"{wanted}\"}}")));
        }
        if seen.header("authorization") == Some(&format!("Bearer {wanted}")) || seen.method == "PUT" {
            return None;
        }
        let host = seen.header("host").unwrap();
        let challenge = format!("Bearer realm=\"http://{host}/token\",scope=\"repository:library/m:pull,push\"");
        Some(reply(401, &[("WWW-Authenticate", &challenge)], ""))
    })
    .await;
    let tokens: Vec<_> = served.lines().into_iter().filter(|line| line.contains("/token")).collect();
    assert!(tokens.len() >= 2 && tokens.iter().all(|line| line.contains("pull%2Cpush")), "{tokens:?}");
}

#[tokio::test]
async fn trouble_passes() {
    let left = Mutex::new(HashMap::from([("HEAD", 1_u32), ("POST", 2), ("PATCH", 2), ("PUT", 2)]));
    let served = check(move |_, seen| {
        let mut left = left.lock().unwrap();
        let left = left.get_mut(seen.method.as_str()).unwrap();
        *left = left.checked_sub(1)?;
        Some(if *left == 0 { reply(500, &[], "") } else { reply(429, &[("Retry-After", "0")], "") })
    })
    .await;
    assert_eq!(count(&served, "HEAD"), 3, "one more than blobs: {:?}", served.lines());
}

#[tokio::test]
async fn a_lost_session_is_begun_anew() {
    let lost = Mutex::new(false);
    let served = check(move |kept, seen| {
        let mut lost = lost.lock().unwrap();
        (seen.method == "PATCH" && kept.patches == 1 && !*lost).then(|| {
            *lost = true;
            reply(404, &[], "upload unknown")
        })
    })
    .await;
    assert_eq!(count(&served, "POST"), 3, "one more than blobs");
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_done() {
    let commits = Mutex::new(0);
    let served = check(move |kept, seen| {
        let commit = seen.method == "PUT" && !seen.target.contains("/manifests/");
        let mut commits = commits.lock().unwrap();
        *commits += usize::from(commit);
        match *commits {
            1 if commit => {
                ordinary(kept, seen);
                Some(reply(502, &[], ""))
            }
            2 if commit => Some(reply(404, &[], "upload unknown")),
            _ => None,
        }
    })
    .await;
    assert_eq!(count(&served, "POST"), 2, "nothing is sent twice");
}

#[tokio::test]
async fn pushes_that_cannot_succeed_end() {
    let (got, _) = error(|_, seen| (seen.method == "POST").then(|| reply(403, &[], "not yours"))).await;
    assert!(matches!(&got, SourceError::Refused { reason, .. } if reason.contains("not yours")), "{got:?}");

    let (got, served) = error(|_, seen| (seen.method == "PATCH").then(|| reply(500, &[], ""))).await;
    assert!(matches!(got, SourceError::Broken { .. }), "{got:?}");
    assert_eq!(count(&served, "PATCH"), 3, "as many tries as there are");

    let (got, served) = error(|_, seen| (seen.method == "PATCH").then(|| reply(404, &[], ""))).await;
    assert!(matches!(got, SourceError::Broken { .. }), "{got:?}");
    assert_eq!(count(&served, "POST"), 4, "a session that is always lost is begun three times more");

    let other = Digest::of(b"").to_string();
    let (got, _) = error(move |_, seen| {
        seen.target.contains("/manifests/").then(|| reply(201, &[("Docker-Content-Digest", &other)], ""))
    })
    .await;
    assert!(matches!(got, SourceError::Refused { .. }), "it must keep the manifest that we sent: {got:?}");
}

#[tokio::test]
async fn nothing_is_sent_of_what_is_not_complete() {
    let (served, _) = registry(|_, _| None).await;
    let model_ = Model::of(&[CONFIG, WEIGHTS]);
    std::fs::remove_file(model_.blob_path(WEIGHTS)).unwrap();
    let got = push(&served, &model_, SignIn::anonymous()).await;
    assert!(matches!(got, Err(PushError::Library(_))), "{got:?}");
    let (watcher, _) = super::watcher();
    let registry = served.registry(SignIn::anonymous());
    let got = registry.push(&model(), b"[]", &model_.library(), &super::rules(), &watcher).await;
    assert!(matches!(got, Err(PushError::Manifest(_))), "{got:?}");
    assert!(served.seen().is_empty(), "nothing was asked: {:?}", served.lines());
}

#[tokio::test]
async fn an_empty_blob_is_a_blob() {
    let (served, kept) = registry(|_, _| None).await;
    push(&served, &Model::of(&[CONFIG, b""]), SignIn::anonymous()).await.unwrap();
    assert!(kept.lock().unwrap().blobs.contains_key(&Digest::of(b"").to_string()), "committed without parts");
}
