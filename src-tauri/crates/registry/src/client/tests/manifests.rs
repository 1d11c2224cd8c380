//! Requests for manifests and their validation.

use axum::body::Body;
use axum::http::Response;
use cairn_store::{Digest, Layer, LayerKind, Manifest};

use crate::tests::test_server::{TestServer, model, reply};
use crate::{Credentials, SourceError};

fn bytes() -> Vec<u8> {
    let layer = |kind| Layer { kind, digest: Digest::of(b"x"), size_bytes: 1 };
    Manifest::to_json(&layer(LayerKind::config()), &[layer(LayerKind::Model)])
}

async fn refused(answer: impl Fn() -> Response<Body> + Send + Sync + 'static) -> String {
    let served = TestServer::start(move |_| answer()).await;
    match served.registry(Credentials::anonymous()).manifest(&model()).await {
        Err(SourceError::Refused { reason, .. } | SourceError::InvalidManifest { reason, .. }) => reason,
        other => panic!("expected Refused, got {other:?}"),
    }
}

#[tokio::test]
async fn manifest_bytes_are_unchanged() {
    let digest = Digest::of(&bytes()).to_string();
    let header = digest.clone();
    let served = TestServer::start(move |_| reply(200, &[("Docker-Content-Digest", &header)], bytes())).await;
    let registry = served.registry(Credentials::anonymous());
    let got = registry.manifest(&model()).await.unwrap();
    assert_eq!(got.bytes, bytes(), "the bytes are unchanged");
    assert_eq!(got.manifest.digest.to_string(), digest, "the digest of the bytes");
    registry.manifest_by_digest(&model(), &got.manifest.digest).await.expect("the digest matches");
    let lines = ["GET /v2/library/m/manifests/latest".to_owned(), format!("GET /v2/library/m/manifests/{digest}")];
    assert_eq!(served.request_lines(), lines, "by tag and by digest");
    let accept = served.requests()[0].header("accept").map(str::to_owned);
    assert_eq!(
        accept.as_deref(),
        Some("application/vnd.docker.distribution.manifest.v2+json"),
        "the media type of the manifest"
    );
}

#[tokio::test]
async fn mirror_request_names_origin() {
    let served = TestServer::start(|_| reply(200, &[], bytes())).await;
    let mirror = served.registry(Credentials::anonymous()).as_mirror_of("registry.ollama.ai");
    mirror.manifest(&model()).await.unwrap();
    assert_eq!(
        served.request_lines(),
        ["GET /v2/library/m/manifests/latest?ns=registry.ollama.ai"],
        "the origin's host"
    );
}

#[tokio::test]
async fn manifest_with_wrong_digest_is_refused() {
    let other = Digest::of(b"other").to_string();
    let reason = refused(move || reply(200, &[("Docker-Content-Digest", &other)], bytes())).await;
    assert!(reason.contains("does not match"), "{reason}");
    let reason = refused(|| reply(200, &[("Docker-Content-Digest", "sha256:zz")], bytes())).await;
    assert!(reason.contains("does not match"), "an invalid digest: {reason}");
    let reason = refused(|| reply(200, &[], "<html>")).await;
    assert!(reason.contains("expected value"), "{reason}");

    let served = TestServer::start(|_| reply(200, &[("Docker-Content-Digest", "sha512:00")], bytes())).await;
    let registry = served.registry(Credentials::anonymous());
    registry.manifest(&model()).await.expect("digests of other algorithms are ignored");
    let got = registry.manifest_by_digest(&model(), &Digest::of(b"wanted")).await;
    assert!(matches!(&got, Err(SourceError::Refused { reason, .. }) if reason.contains("does not match")), "{got:?}");
}

#[tokio::test]
async fn too_long_manifest_is_refused() {
    let long = || vec![b' '; (8 << 20) + 1];
    let reason = refused(move || reply(200, &[], long())).await;
    assert!(reason.contains("longer than"), "with a content length: {reason}");
    let chunks = move || {
        let parts = (0..9).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1 << 20]));
        Body::from_stream(tokio_stream::iter(parts))
    };
    let reason = refused(move || reply(200, &[], chunks())).await;
    assert!(reason.contains("longer than"), "without a content length: {reason}");
}
