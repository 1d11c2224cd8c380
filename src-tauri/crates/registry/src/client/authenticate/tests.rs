//! Authentication: what is sent to a registry and its token server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::Response;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cairn_disk::RealDisk;
use signature::Verifier;
use ssh_key::{Algorithm, PublicKey, Signature};

use crate::tests::test_server::{RecordedRequest, TestServer, model, reply};
use crate::{Credentials, FetchedManifest, KeyFile, Registry, SourceError};

/// A registry that accepts the token `good`. Its token server responds with `issue`.
async fn registry(issue: impl Fn(&RecordedRequest) -> Response<Body> + Send + Sync + 'static) -> TestServer {
    TestServer::start(move |seen| {
        let host = seen.header("host").unwrap();
        match (seen.target.split('?').next().unwrap(), seen.header("authorization")) {
            ("/token", _) => issue(seen),
            (_, Some("Bearer good")) => reply(200, &[], "{}"),
            _ => unauthorized(&format!("http://{host}/token")),
        }
    })
    .await
}

fn unauthorized(realm: &str) -> Response<Body> {
    let challenge =
        format!("Bearer realm=\"{realm}\",service=\"the service\",scope=\"repository:library/m:pull other:x:*\"");
    reply(401, &[("WWW-Authenticate", &challenge)], "")
}

fn token(_: &RecordedRequest) -> Response<Body> {
    reply(200, &[], r#"{"token":"good","expires_in":300}"#)
}

fn key() -> (tempfile::TempDir, Arc<KeyFile>) {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyFile::create_if_missing(folder.path().join("keys/id_ed25519"), Arc::new(RealDisk));
    (folder, Arc::new(key))
}

async fn refused(registry: &Registry) -> String {
    match registry.manifest(&model()).await {
        Err(SourceError::Refused { reason, .. }) => reason,
        other => panic!("expected Refused, got {other:?}"),
    }
}

#[tokio::test]
async fn token_request_is_signed_completely() {
    let served = registry(token).await;
    let (_folder, key) = key();
    served.registry(Credentials::key(Arc::clone(&key))).manifest(&model()).await.expect("the token is accepted");

    let seen = served.requests();
    let lines: Vec<_> = seen.iter().map(|seen| seen.target.split('?').next().unwrap()).collect();
    assert_eq!(lines, ["/v2/library/m/manifests/latest", "/token", "/v2/library/m/manifests/latest"], "three requests");
    let query = seen[1].target.split_once('?').unwrap().1;
    let nonce = query.strip_prefix("nonce=").and_then(|rest| rest.split('&').next()).unwrap();
    assert_eq!(URL_SAFE_NO_PAD.decode(nonce).unwrap().len(), 16, "a nonce of 16 bytes");
    let rest = "&scope=repository%3Alibrary%2Fm%3Apull&scope=other%3Ax%3A%2A&service=the+service&ts=1767225600";
    assert_eq!(query, format!("nonce={nonce}{rest}"), "sorted by key, as in Go");

    let (public, signature) = seen[1].header("authorization").unwrap().split_once(':').unwrap();
    let line = key.public_line().await.unwrap();
    assert_eq!(line.split(' ').nth(1), Some(public), "the base64 field of the public line");
    let public = PublicKey::from_bytes(&STANDARD.decode(public).unwrap()).unwrap();
    let signature = Signature::new(Algorithm::Ed25519, STANDARD.decode(signature).unwrap()).expect("64 bytes");
    let text = format!(
        "GET,{},ZTNiMGM0NDI5OGZjMWMxNDlhZmJmNGM4OTk2ZmI5MjQyN2FlNDFlNDY0OWI5MzRjYTQ5NTk5MWI3ODUyYjg1NQ==",
        served.url(&seen[1].target)
    );
    public.key_data().verify(text.as_bytes(), &signature).expect("the signature is valid for this text");
}

#[tokio::test]
async fn token_is_cached_until_it_expires() {
    let served = registry(token).await;
    let registry_ = served.registry(Credentials::anonymous());
    for _ in 0..3 {
        registry_.manifest(&model()).await.unwrap();
    }
    let tokens = served.request_lines().iter().filter(|line| line.contains("/token")).count();
    assert_eq!((tokens, served.requests().len()), (1, 5), "one token request: {:?}", served.request_lines());
    assert_eq!(served.requests()[1].header("authorization"), None, "an anonymous token request");

    let brief = registry(|_| reply(200, &[], r#"{"access_token":"good","expires_in":0}"#)).await;
    let registry_ = brief.registry(Credentials::anonymous());
    for _ in 0..2 {
        registry_.manifest(&model()).await.unwrap();
    }
    let tokens = brief.request_lines().iter().filter(|line| line.contains("/token")).count();
    assert_eq!(tokens, 2, "an expired token is not used: {:?}", brief.request_lines());
}

#[tokio::test]
async fn revoked_token_is_replaced() {
    let current = Arc::new(AtomicUsize::new(0));
    let server_token = Arc::clone(&current);
    let served = TestServer::start(move |seen| {
        let now = server_token.load(Ordering::Relaxed);
        let host = seen.header("host").unwrap();
        if seen.target.starts_with("/token") {
            return reply(200, &[], format!("{{\"token\":\"t{now}\"}}"));
        }
        match seen.header("authorization") == Some(&format!("Bearer t{now}")) {
            true => reply(200, &[], "{}"),
            false => unauthorized(&format!("http://{host}/token")),
        }
    })
    .await;
    let registry = served.registry(Credentials::anonymous());
    registry.manifest(&model()).await.unwrap();
    current.store(1, Ordering::Relaxed);
    registry.manifest(&model()).await.expect("a new token is requested");
}

#[tokio::test]
async fn concurrent_requests_share_one_token() {
    let served = registry(token).await;
    let registry = served.registry(Credentials::anonymous());
    let all: tokio::task::JoinSet<Result<FetchedManifest, SourceError>> = (0..16)
        .map(|_| {
            let registry = registry.clone();
            async move { registry.manifest(&model()).await }
        })
        .collect();
    assert!(all.join_all().await.iter().all(Result::is_ok), "all requests succeed");
    let tokens = served.request_lines().iter().filter(|line| line.contains("/token")).count();
    assert_eq!(tokens, 1, "one token for sixteen requests");
}

#[tokio::test]
async fn second_401_is_final() {
    let served = registry(|_| reply(200, &[], r#"{"token":"bad"}"#)).await;
    let reason = refused(&served.registry(Credentials::anonymous())).await;
    assert!(reason.contains("unauthorized: access denied"), "{reason}");
    assert_eq!(served.requests().len(), 3, "no third attempt: {:?}", served.request_lines());
}

#[tokio::test]
async fn credentials_are_not_sent_to_foreign_token_server() {
    let thief = TestServer::start(token).await;
    let realm = thief.url("/token");
    let served = TestServer::start(move |seen| match seen.header("authorization") {
        Some("Bearer good") => reply(200, &[], "{}"),
        _ => unauthorized(&realm),
    })
    .await;
    let (_folder, key) = key();
    for sign_in in [Credentials::key(key), Credentials::password("u", "p"), Credentials::anonymous()] {
        let reason = refused(&served.registry(sign_in)).await;
        assert!(reason.contains("does not match original host"), "{reason}");
    }
    assert!(thief.requests().is_empty(), "the foreign server got no request: {:?}", thief.request_lines());

    let named = Credentials::password("u", "p").with_trusted_realms([thief.address.clone()]);
    served.registry(named).manifest(&model()).await.expect("a trusted token server");
    assert_eq!(
        thief.requests()[0].header("authorization"),
        Some("Basic dTpw"),
        "the trusted server receives the password"
    );
}

#[tokio::test]
async fn invalid_realm_is_refused() {
    for realm in ["token", "ftp://{host}/token", "http://u:p@{host}/token", "http://{host}.evil.example/token", ""] {
        let served =
            TestServer::start(move |seen| unauthorized(&realm.replace("{host}", seen.header("host").unwrap()))).await;
        refused(&served.registry(Credentials::anonymous())).await;
        assert_eq!(served.requests().len(), 1, "{realm:?} gets no request");
    }
}

#[tokio::test]
async fn anonymous_token_is_used_if_key_is_rejected() {
    let served = registry(|seen| match seen.header("authorization") {
        Some(_) => reply(401, &[], "what is this?"),
        None => token(seen),
    })
    .await;
    let (_folder, key) = key();
    served.registry(Credentials::key(key)).manifest(&model()).await.expect("anonymous read access");
}

#[tokio::test]
async fn token_server_failures_are_mapped_to_errors() {
    let broken = registry(|_| reply(502, &[], "")).await;
    let got = broken.registry(Credentials::anonymous()).manifest(&model()).await;
    assert!(matches!(got, Err(SourceError::Broken { .. })), "expected a retryable error: {got:?}");
    let busy = registry(|_| reply(429, &[("Retry-After", "3")], "")).await;
    let got = busy.registry(Credentials::anonymous()).manifest(&model()).await;
    assert!(matches!(got, Err(SourceError::Busy { .. })), "expected Busy: {got:?}");
    for answer in ["", "{}", r#"{"token":""}"#, r#"{"token":"a\nb"}"#, "<html>"] {
        let served = registry(move |_| reply(200, &[], answer)).await;
        let reason = refused(&served.registry(Credentials::anonymous())).await;
        assert!(reason.contains("token"), "{answer:?}: {reason}");
    }
    let away = registry(|_| reply(302, &[("Location", "/v2/library/x/manifests/latest")], "")).await;
    let got = away.registry(Credentials::password("u", "p")).manifest(&model()).await;
    assert!(
        got.is_err() && away.requests().len() == 2,
        "a token server's redirect is not followed: {:?}",
        away.request_lines()
    );
}

#[tokio::test]
async fn basic_authentication_works_without_token_server() {
    let served = TestServer::start(|seen| match seen.header("authorization") {
        Some("Basic dTpw") => reply(200, &[], "{}"),
        _ => reply(401, &[("WWW-Authenticate", "Basic realm=\"x\"")], ""),
    })
    .await;
    let registry = served.registry(Credentials::password("u", "p"));
    for _ in 0..2 {
        registry.manifest(&model()).await.expect("the correct password");
    }
    assert_eq!(served.requests().len(), 3, "the header is reused");
    let reason = refused(&served.registry(Credentials::password("u", "wrong"))).await;
    assert!(reason.contains("access denied"), "{reason}");
    let reason = refused(&served.registry(Credentials::anonymous())).await;
    assert!(reason.contains("a user and a password"), "{reason}");
}

#[test]
fn debug_output_hides_password() {
    let shown = format!("{:?}", Credentials::password("someone", "hunter2"));
    assert!(shown.contains("someone") && !shown.contains("hunter2"), "{shown}");
}

/// A registry on another machine over plain http, behind a proxy that records the requests.
async fn remote_http_registry(challenge: &'static str, sign_in: Credentials) -> (TestServer, Registry) {
    let proxy = TestServer::start(move |seen| match (seen.target.contains("/token"), seen.header("authorization")) {
        (true, Some("Basic dTpw")) => token(seen),
        (true, _) => reply(403, &[], ""),
        (false, Some("Basic dTpw" | "Bearer good")) => reply(200, &[], "{}"),
        (false, _) => reply(401, &[("WWW-Authenticate", challenge)], ""),
    })
    .await;
    let mut config = crate::tests::test_server::config();
    config.proxies = crate::Proxies::all(&proxy.url(""), "");
    let transport = crate::Transport::new(config).unwrap();
    let registry = Registry::from_address("http://registry.test", true, &transport, sign_in).unwrap();
    (proxy, registry)
}

#[tokio::test]
async fn password_over_plain_http_requires_permission() {
    let bearer = "Bearer realm=\"http://registry.test/token\"";
    for challenge in ["Basic realm=\"x\"", bearer] {
        let (proxy, registry) = remote_http_registry(challenge, Credentials::password("u", "p")).await;
        let reason = refused(&registry).await;
        assert!(reason.contains("over plain http"), "{reason}");
        assert!(
            proxy.requests().iter().all(|seen| seen.header("authorization").is_none()),
            "{challenge}: the password was not sent"
        );
        let (_proxy, registry) =
            remote_http_registry(challenge, Credentials::password("u", "p").allow_plain_http()).await;
        registry.manifest(&model()).await.expect("plain http is allowed");
    }
}

#[tokio::test]
async fn check_login_detects_wrong_password_and_missing_registry() {
    let served = registry(|seen| match seen.header("authorization") {
        Some("Basic dTpw") => token(seen),
        _ => unauthorized("x"),
    })
    .await;
    served.registry(Credentials::password("u", "p")).check_login().await.expect("the correct password");
    let got = served.registry(Credentials::password("u", "wrong")).check_login().await;
    assert!(matches!(got, Err(SourceError::Refused { .. })), "{got:?}");
    let not_a_registry = TestServer::start(|_| reply(404, &[], "")).await;
    let got = not_a_registry.registry(Credentials::password("u", "p")).check_login().await;
    assert!(matches!(got, Err(SourceError::Absent { .. })), "expected Absent: {got:?}");
}
