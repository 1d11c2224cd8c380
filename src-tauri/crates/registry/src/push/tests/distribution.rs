//! Tests with Debian's `docker-registry`. They are skipped if it is not installed.

use std::process::Command;

use cairn_store::{Digest, Manifest};
use cairn_testkit::TokenServer;
use cairn_testkit::distribution::{Access, Distribution};

use super::{Model, config, watcher};
use crate::tests::test_server::{model, transport};
use crate::{Credentials, PushError, PushStep, Registry, SourceError};

fn client_of(running: &Distribution, sign_in: Credentials) -> Registry {
    Registry::from_address(&url(running, ""), false, &transport(), sign_in).unwrap()
}

fn url(running: &Distribution, path: &str) -> String {
    format!("http://{}{path}", running.host())
}

/// A blob that needs several reads per part.
fn large() -> Vec<u8> {
    (0..700_001_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

async fn pull(registry: &Registry, digest: &Digest, expected: &[u8]) {
    let source = registry.blobs(&model());
    let size = expected.len() as u64;
    for range in [0..size, size / 3..size / 2] {
        let mut opened = source.open(digest, size, range.clone()).await.unwrap();
        let mut bytes = Vec::new();
        while let Some(more) = opened.body.next().await.unwrap() {
            bytes.extend_from_slice(&more);
        }
        assert_eq!(opened.offset, range.start, "the registry supports ranges");
        let expected = &expected[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
        assert!(bytes == expected, "the bytes of {range:?}");
    }
}

#[tokio::test]
async fn pushed_model_can_be_read_and_pulled() {
    let Some(running) = Distribution::start(Access::Open) else { return };
    let blob = large();
    let model_ = Model::of(&[b"{}", &blob]);
    let registry = client_of(&running, Credentials::anonymous());
    let config = crate::PushConfig { min_part_bytes: 300_000, max_part_bytes: 300_000, ..config() };
    let (watcher, steps) = watcher();
    registry.push(&model(), &model_.manifest, &model_.library(), &config, &watcher).await.unwrap();
    assert!(steps.lock().unwrap().len() > 3, "progress is reported: {steps:?}");

    // Read with an independent client: curl, if installed.
    let digest = Digest::of(&blob);
    let read = Command::new("curl").args(["-sf", &url(&running, &format!("/v2/library/m/blobs/{digest}"))]).output();
    if let Ok(read) = read {
        assert_eq!(Digest::of(&read.stdout), digest, "curl reads the same bytes");
    }

    let got = registry.manifest(&model()).await.unwrap();
    assert_eq!(got.bytes, model_.manifest, "the manifest is unchanged");
    registry.manifest_by_digest(&model(), &Digest::of(&model_.manifest)).await.expect("the manifest by digest");
    pull(&registry, &digest, &blob).await;
    assert_eq!(registry.blob_size(&model(), &digest).await.unwrap(), Some(blob.len() as u64), "its size");
    let absent = registry.manifest(&"library/absent".parse().unwrap()).await;
    assert!(matches!(absent, Err(SourceError::Absent { .. })), "{absent:?}");

    // A second push finds all blobs.
    let (again, steps) = super::watcher();
    registry.push(&model(), &model_.manifest, &model_.library(), &config, &again).await.unwrap();
    let expected_steps = Manifest::parse(&model_.manifest).unwrap().layers.len() + 2;
    assert_eq!(steps.lock().unwrap().len(), expected_steps, "no blob was sent: {steps:?}");
    assert_eq!(steps.lock().unwrap().last(), Some(&PushStep::Manifest), "the manifest is sent");
    assert!(running.data().join("docker").exists(), "the registry stored the data");
}

#[tokio::test]
async fn blob_is_mounted_from_other_repository() {
    let Some(running) = Distribution::start(Access::Open) else { return };
    let blob = large();
    let model_ = Model::of(&[b"{}", &blob]);
    let registry = client_of(&running, Credentials::anonymous());
    let (watcher, _) = watcher();
    registry
        .push(&model(), &model_.manifest, &model_.library(), &config_with_parts_of(300_000), &watcher)
        .await
        .unwrap();
    let manifest = String::from_utf8(model_.manifest.clone()).unwrap();
    let from = format!("\"size\":{},\"from\":\"{}/library/m:latest\"", blob.len(), running.host());
    let manifest = manifest.replace(&format!("\"size\":{}", blob.len()), &from);
    assert!(manifest.contains("from"), "the layer names its source: {manifest}");
    let name = format!("{}/me/derived:latest", running.host()).parse().unwrap();
    let (watcher, steps) = super::watcher();
    registry.push(&name, manifest.as_bytes(), &model_.library(), &config_with_parts_of(1000), &watcher).await.unwrap();
    assert!(steps.lock().unwrap().len() < 10, "the large blob was not sent again: {}", steps.lock().unwrap().len());
    assert_eq!(registry.manifest(&name).await.unwrap().bytes, manifest, "the derived model's manifest");
}

fn config_with_parts_of(part_bytes: u64) -> crate::PushConfig {
    crate::PushConfig { min_part_bytes: part_bytes, max_part_bytes: part_bytes, ..config() }
}

#[tokio::test]
async fn push_and_pull_with_password() {
    // The user `u` with the password `p`, as htpasswd writes them with bcrypt.
    let users = "u:$2y$04$bDUoMtO8iG0L2wW6gqtEce7jr4Wljqg/kQUXE6vFYNI8vB/fiEPIK\n";
    let Some(running) = Distribution::start(Access::Htpasswd(users)) else { return };
    let model_ = Model::of(&[b"{}", b"weights"]);
    let (watcher, _) = watcher();
    let registry = client_of(&running, Credentials::password("u", "p"));
    registry.push(&model(), &model_.manifest, &model_.library(), &config(), &watcher).await.unwrap();
    pull(&registry, &Digest::of(b"weights"), b"weights").await;
    let rejected = client_of(&running, Credentials::password("u", "wrong"));
    let got = rejected.push(&model(), &model_.manifest, &model_.library(), &config(), &watcher).await;
    assert!(matches!(got, Err(PushError::Registry(SourceError::Refused { .. }))), "{got:?}");
}

#[tokio::test]
async fn push_and_pull_with_tokens() {
    let server = TokenServer::start("u", "p");
    let Some(running) = Distribution::start(Access::Tokens(&server)) else { return };
    let model_ = Model::of(&[b"{}", b"weights"]);
    let (watcher, _) = watcher();
    let realms = || [server.host()];
    let registry = client_of(&running, Credentials::password("u", "p").with_trusted_realms(realms()));
    registry.push(&model(), &model_.manifest, &model_.library(), &config(), &watcher).await.unwrap();
    assert_eq!(registry.manifest(&model()).await.unwrap().bytes, model_.manifest, "the pushed manifest");
    pull(&registry, &Digest::of(b"weights"), b"weights").await;
    assert_eq!(server.requests().len(), 2, "a write token and a read token: {:?}", server.requests());
    let rejected = client_of(&running, Credentials::password("u", "wrong").with_trusted_realms(realms()));
    let got = rejected.manifest(&model()).await;
    assert!(matches!(got, Err(SourceError::Refused { .. })), "{got:?}");
}
