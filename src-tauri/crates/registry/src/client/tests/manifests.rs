//! Manifests: asked for as Ollama's registry wants, and believed only as far as they prove.

use axum::body::Body;
use axum::http::Response;
use cairn_store::{Digest, Layer, LayerKind, Manifest};

use crate::served::{Served, model, reply};
use crate::{SignIn, SourceError};

fn bytes() -> Vec<u8> {
    let layer = |kind| Layer { kind, digest: Digest::of(b"x"), size_bytes: 1 };
    Manifest::to_json(&layer(LayerKind::config()), &[layer(LayerKind::Model)])
}

async fn refused(answer: impl Fn() -> Response<Body> + Send + Sync + 'static) -> String {
    let served = Served::by(move |_| answer()).await;
    match served.registry(SignIn::anonymous()).manifest(&model()).await {
        Err(SourceError::Refused { reason, .. }) => reason,
        other => panic!("it must be refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_manifest_comes_byte_for_byte() {
    let digest = Digest::of(&bytes()).to_string();
    let told = digest.clone();
    let served = Served::by(move |_| reply(200, &[("Docker-Content-Digest", &told)], bytes())).await;
    let registry = served.registry(SignIn::anonymous());
    let got = registry.manifest(&model()).await.unwrap();
    assert_eq!(got.bytes, bytes(), "not one byte changed");
    assert_eq!(got.manifest.digest.to_string(), digest, "known by its digest");
    registry.manifest_of(&model(), &got.manifest.digest).await.expect("it has that digest");
    let lines = ["GET /v2/library/m/manifests/latest".to_owned(), format!("GET /v2/library/m/manifests/{digest}")];
    assert_eq!(served.lines(), lines, "by tag and by digest");
    let accept = served.seen()[0].header("accept").map(str::to_owned);
    assert_eq!(
        accept.as_deref(),
        Some("application/vnd.docker.distribution.manifest.v2+json"),
        "the kind that is kept"
    );
}

#[tokio::test]
async fn a_mirror_is_told_whose_model_is_meant() {
    let served = Served::by(|_| reply(200, &[], bytes())).await;
    let mirror = served.registry(SignIn::anonymous()).standing_for("registry.ollama.ai");
    mirror.manifest(&model()).await.unwrap();
    assert_eq!(served.lines(), ["GET /v2/library/m/manifests/latest?ns=registry.ollama.ai"], "the origin's host");
}

#[tokio::test]
async fn a_manifest_must_be_what_it_is_said_to_be() {
    let other = Digest::of(b"other").to_string();
    let said = refused(move || reply(200, &[("Docker-Content-Digest", &other)], bytes())).await;
    assert!(said.contains("another digest"), "{said}");
    let said = refused(|| reply(200, &[("Docker-Content-Digest", "sha256:zz")], bytes())).await;
    assert!(said.contains("another digest"), "a digest that is none: {said}");
    let said = refused(|| reply(200, &[], "<html>")).await;
    assert!(said.contains("manifest"), "{said}");

    let served = Served::by(|_| reply(200, &[("Docker-Content-Digest", "sha512:00")], bytes())).await;
    let registry = served.registry(SignIn::anonymous());
    registry.manifest(&model()).await.expect("another algorithm says nothing that can be compared");
    let got = registry.manifest_of(&model(), &Digest::of(b"wanted")).await;
    assert!(matches!(&got, Err(SourceError::Refused { reason, .. }) if reason.contains("another digest")), "{got:?}");
}

#[tokio::test]
async fn a_manifest_has_a_size_that_a_manifest_can_have() {
    let long = || vec![b' '; (8 << 20) + 1];
    let said = refused(move || reply(200, &[], long())).await;
    assert!(said.contains("longer than"), "announced: {said}");
    let chunks = move || {
        let parts = (0..9).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1 << 20]));
        Body::from_stream(tokio_stream::iter(parts))
    };
    let said = refused(move || reply(200, &[], chunks())).await;
    assert!(said.contains("longer than"), "not announced: {said}");
}
