//! Signing in: what a registry and its token server get to see, and what they do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::Response;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cairn_disk::RealDisk;
use signature::Verifier;
use ssh_key::{Algorithm, PublicKey, Signature};

use crate::served::{Seen, Served, model, reply};
use crate::{KeyFile, ManifestBytes, Registry, SignIn, SourceError};

/// A registry that opens for `token`, which its own token server gives away as `give` says.
async fn registry(give: impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static) -> Served {
    Served::by(move |seen| {
        let host = seen.header("host").unwrap();
        match (seen.target.split('?').next().unwrap(), seen.header("authorization")) {
            ("/token", _) => give(seen),
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

fn token(_: &Seen) -> Response<Body> {
    reply(200, &[], r#"{"token":"good","expires_in":300}"#)
}

fn key() -> (tempfile::TempDir, Arc<KeyFile>) {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyFile::made_at(folder.path().join("keys/id_ed25519"), Arc::new(RealDisk));
    (folder, Arc::new(key))
}

async fn refused(registry: &Registry) -> String {
    match registry.manifest(&model()).await {
        Err(SourceError::Refused { reason, .. }) => reason,
        other => panic!("it must be refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_key_signs_the_whole_question() {
    let served = registry(token).await;
    let (_folder, key) = key();
    served.registry(SignIn::key(Arc::clone(&key))).manifest(&model()).await.expect("the token opens it");

    let seen = served.seen();
    let lines: Vec<_> = seen.iter().map(|seen| seen.target.split('?').next().unwrap()).collect();
    assert_eq!(
        lines,
        ["/v2/library/m/manifests/latest", "/token", "/v2/library/m/manifests/latest"],
        "three questions"
    );
    let query = seen[1].target.split_once('?').unwrap().1;
    let nonce = query.strip_prefix("nonce=").and_then(|rest| rest.split('&').next()).unwrap();
    assert_eq!(URL_SAFE_NO_PAD.decode(nonce).unwrap().len(), 16, "a random number of 16 bytes");
    let rest = "&scope=repository%3Alibrary%2Fm%3Apull&scope=other%3Ax%3A%2A&service=the+service&ts=1767225600";
    assert_eq!(query, format!("nonce={nonce}{rest}"), "sorted by key, as Go writes it");

    let (public, signature) = seen[1].header("authorization").unwrap().split_once(':').unwrap();
    let line = key.public_line().await.unwrap();
    assert_eq!(line.split(' ').nth(1), Some(public), "the middle of the public line");
    let public = PublicKey::from_bytes(&STANDARD.decode(public).unwrap()).unwrap();
    let signature = Signature::new(Algorithm::Ed25519, STANDARD.decode(signature).unwrap()).expect("64 bytes");
    let text = format!(
        "GET,{},ZTNiMGM0NDI5OGZjMWMxNDlhZmJmNGM4OTk2ZmI5MjQyN2FlNDFlNDY0OWI5MzRjYTQ5NTk5MWI3ODUyYjg1NQ==",
        served.url(&seen[1].target)
    );
    public.key_data().verify(text.as_bytes(), &signature).expect("the signature is of exactly this");
}

#[tokio::test]
async fn tokens_are_kept_until_they_run_out() {
    let served = registry(token).await;
    let registry_ = served.registry(SignIn::anonymous());
    for _ in 0..3 {
        registry_.manifest(&model()).await.unwrap();
    }
    let tokens = served.lines().iter().filter(|line| line.contains("/token")).count();
    assert_eq!((tokens, served.seen().len()), (1, 5), "one token for all: {:?}", served.lines());
    assert_eq!(served.seen()[1].header("authorization"), None, "nobody said who we are");

    let brief = registry(|_| reply(200, &[], r#"{"access_token":"good","expires_in":0}"#)).await;
    let registry_ = brief.registry(SignIn::anonymous());
    for _ in 0..2 {
        registry_.manifest(&model()).await.unwrap();
    }
    let tokens = brief.lines().iter().filter(|line| line.contains("/token")).count();
    assert_eq!(tokens, 2, "one that has run out is not tried: {:?}", brief.lines());
}

#[tokio::test]
async fn a_token_that_is_taken_back_is_replaced() {
    let current = Arc::new(AtomicUsize::new(0));
    let gate = Arc::clone(&current);
    let served = Served::by(move |seen| {
        let now = gate.load(Ordering::Relaxed);
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
    let registry = served.registry(SignIn::anonymous());
    registry.manifest(&model()).await.unwrap();
    current.store(1, Ordering::Relaxed);
    registry.manifest(&model()).await.expect("a new token is obtained");
}

#[tokio::test]
async fn streams_share_one_token() {
    let served = registry(token).await;
    let registry = served.registry(SignIn::anonymous());
    let all: tokio::task::JoinSet<Result<ManifestBytes, SourceError>> = (0..16)
        .map(|_| {
            let registry = registry.clone();
            async move { registry.manifest(&model()).await }
        })
        .collect();
    assert!(all.join_all().await.iter().all(Result::is_ok), "all get in");
    let tokens = served.lines().iter().filter(|line| line.contains("/token")).count();
    assert_eq!(tokens, 1, "for sixteen that came at once");
}

#[tokio::test]
async fn a_second_401_is_the_last() {
    let served = registry(|_| reply(200, &[], r#"{"token":"bad"}"#)).await;
    let said = refused(&served.registry(SignIn::anonymous())).await;
    assert!(said.contains("unauthorized: access denied"), "{said}");
    assert_eq!(served.seen().len(), 3, "no third try: {:?}", served.lines());
}

#[tokio::test]
async fn signatures_do_not_go_to_other_hosts() {
    let thief = Served::by(token).await;
    let realm = thief.url("/token");
    let served = Served::by(move |seen| match seen.header("authorization") {
        Some("Bearer good") => reply(200, &[], "{}"),
        _ => unauthorized(&realm),
    })
    .await;
    let (_folder, key) = key();
    for sign_in in [SignIn::key(key), SignIn::password("u", "p"), SignIn::anonymous()] {
        let said = refused(&served.registry(sign_in)).await;
        assert!(said.contains("does not match original host"), "{said}");
    }
    assert!(thief.seen().is_empty(), "it was not even asked: {:?}", thief.lines());

    let named = SignIn::password("u", "p").trusting_realms([thief.place.clone()]);
    served.registry(named).manifest(&model()).await.expect("a token server that the user named");
    assert_eq!(thief.seen()[0].header("authorization"), Some("Basic dTpw"), "gets the password");
}

#[tokio::test]
async fn realms_that_are_no_addresses() {
    for realm in ["token", "ftp://{host}/token", "http://u:p@{host}/token", "http://{host}.evil.example/token", ""] {
        let served = Served::by(move |seen| unauthorized(&realm.replace("{host}", seen.header("host").unwrap()))).await;
        refused(&served.registry(SignIn::anonymous())).await;
        assert_eq!(served.seen().len(), 1, "{realm:?} is not asked");
    }
}

#[tokio::test]
async fn token_servers_that_know_no_keys() {
    let served = registry(|seen| match seen.header("authorization") {
        Some(_) => reply(401, &[], "what is this?"),
        None => token(seen),
    })
    .await;
    let (_folder, key) = key();
    served.registry(SignIn::key(key)).manifest(&model()).await.expect("anybody may read");
}

#[tokio::test]
async fn token_servers_that_fail() {
    let broken = registry(|_| reply(502, &[], "")).await;
    let got = broken.registry(SignIn::anonymous()).manifest(&model()).await;
    assert!(matches!(got, Err(SourceError::Broken { .. })), "it may pass: {got:?}");
    let busy = registry(|_| reply(429, &[("Retry-After", "3")], "")).await;
    let got = busy.registry(SignIn::anonymous()).manifest(&model()).await;
    assert!(matches!(got, Err(SourceError::Busy { .. })), "it asks to wait: {got:?}");
    for answer in ["", "{}", r#"{"token":""}"#, r#"{"token":"a\nb"}"#, "<html>"] {
        let served = registry(move |_| reply(200, &[], answer)).await;
        let said = refused(&served.registry(SignIn::anonymous())).await;
        assert!(said.contains("token"), "{answer:?}: {said}");
    }
    let away = registry(|_| reply(302, &[("Location", "/v2/library/x/manifests/latest")], "")).await;
    let got = away.registry(SignIn::password("u", "p")).manifest(&model()).await;
    assert!(got.is_err() && away.seen().len() == 2, "a token server's redirect is not followed: {:?}", away.lines());
}

#[tokio::test]
async fn passwords_without_tokens() {
    let served = Served::by(|seen| match seen.header("authorization") {
        Some("Basic dTpw") => reply(200, &[], "{}"),
        _ => reply(401, &[("WWW-Authenticate", "Basic realm=\"x\"")], ""),
    })
    .await;
    let registry = served.registry(SignIn::password("u", "p"));
    for _ in 0..2 {
        registry.manifest(&model()).await.expect("the right password");
    }
    assert_eq!(served.seen().len(), 3, "asked for once");
    let said = refused(&served.registry(SignIn::password("u", "wrong"))).await;
    assert!(said.contains("access denied"), "{said}");
    let said = refused(&served.registry(SignIn::anonymous())).await;
    assert!(said.contains("a name and a password"), "{said}");
}

#[test]
fn secrets_are_not_printed() {
    let shown = format!("{:?}", SignIn::password("someone", "hunter2"));
    assert!(shown.contains("someone") && !shown.contains("hunter2"), "{shown}");
}

/// A registry on another machine, which is asked over plain http; whoever is on the way sees what the proxy sees.
async fn far(challenge: &'static str, sign_in: SignIn) -> (Served, Registry) {
    let proxy = Served::by(move |seen| match (seen.target.contains("/token"), seen.header("authorization")) {
        (true, Some("Basic dTpw")) => token(seen),
        (true, _) => reply(403, &[], ""),
        (false, Some("Basic dTpw" | "Bearer good")) => reply(200, &[], "{}"),
        (false, _) => reply(401, &[("WWW-Authenticate", challenge)], ""),
    })
    .await;
    let mut config = crate::served::config();
    config.proxies = crate::Proxies::all(&proxy.url(""), "");
    let transport = crate::Transport::new(config).unwrap();
    let registry = Registry::at("http://registry.test", true, &transport, sign_in).unwrap();
    (proxy, registry)
}

#[tokio::test]
async fn passwords_go_over_plain_http_only_when_that_was_asked_for() {
    let bearer = "Bearer realm=\"http://registry.test/token\"";
    for challenge in ["Basic realm=\"x\"", bearer] {
        let (proxy, registry) = far(challenge, SignIn::password("u", "p")).await;
        let said = refused(&registry).await;
        assert!(said.contains("over plain http"), "{said}");
        assert!(
            proxy.seen().iter().all(|seen| seen.header("authorization").is_none()),
            "{challenge}: nothing was sent"
        );
        let (_proxy, registry) = far(challenge, SignIn::password("u", "p").over_plain_http()).await;
        registry.manifest(&model()).await.expect("it was asked for");
    }
}

#[tokio::test]
async fn signing_in_is_tried_before_any_model_is_asked_for() {
    let served = registry(|seen| match seen.header("authorization") {
        Some("Basic dTpw") => token(seen),
        _ => unauthorized("x"),
    })
    .await;
    served.registry(SignIn::password("u", "p")).enter().await.expect("that is the password");
    let got = served.registry(SignIn::password("u", "wrong")).enter().await;
    assert!(matches!(got, Err(SourceError::Refused { .. })), "{got:?}");
    let nobody = Served::by(|_| reply(404, &[], "")).await;
    let got = nobody.registry(SignIn::password("u", "p")).enter().await;
    assert!(matches!(got, Err(SourceError::Absent { .. })), "it is no registry: {got:?}");
}
