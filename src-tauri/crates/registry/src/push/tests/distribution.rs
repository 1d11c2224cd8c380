//! The real thing: Debian's `docker-registry`. Where a machine lacks it, these tests say so and end.

use std::process::Command;

use cairn_store::{Digest, Manifest};
use cairn_testkit::TokenServer;
use cairn_testkit::distribution::{Access, Distribution};

use super::{Model, rules, watcher};
use crate::served::{model, transport};
use crate::{PushError, PushStep, Registry, SignIn, SourceError};

fn client_of(running: &Distribution, sign_in: SignIn) -> Registry {
    Registry::at(&url(running, ""), false, &transport(), sign_in).unwrap()
}

fn url(running: &Distribution, path: &str) -> String {
    format!("http://{}{path}", running.host())
}

/// 25 bytes and a few hundred thousand, so that there are small parts and parts of many reads.
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
        assert_eq!(opened.offset, range.start, "a real registry knows ranges");
        let expected = &expected[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
        assert!(bytes == expected, "the bytes of {range:?}");
    }
}

#[tokio::test]
async fn push_read_and_pull() {
    let Some(running) = Distribution::start(Access::Open) else { return };
    let blob = large();
    let model_ = Model::of(&[b"{}", &blob]);
    let registry = client_of(&running, SignIn::anonymous());
    let rules = crate::PushRules { min_part_bytes: 300_000, max_part_bytes: 300_000, ..rules() };
    let (watcher, told) = watcher();
    registry.push(&model(), &model_.manifest, &model_.library(), &rules, &watcher).await.unwrap();
    assert!(told.lock().unwrap().len() > 3, "progress was told: {told:?}");

    // Plain HTTP, without anything of ours: curl, where there is one.
    let digest = Digest::of(&blob);
    let read = Command::new("curl").args(["-sf", &url(&running, &format!("/v2/library/m/blobs/{digest}"))]).output();
    if let Ok(read) = read {
        assert_eq!(Digest::of(&read.stdout), digest, "curl reads the same");
    }

    let got = registry.manifest(&model()).await.unwrap();
    assert_eq!(got.bytes, model_.manifest, "the manifest comes back byte for byte");
    registry.manifest_of(&model(), &Digest::of(&model_.manifest)).await.expect("by its digest too");
    pull(&registry, &digest, &blob).await;
    assert_eq!(registry.blob_size(&model(), &digest).await.unwrap(), Some(blob.len() as u64), "its size");
    let absent = registry.manifest(&"library/absent".parse().unwrap()).await;
    assert!(matches!(absent, Err(SourceError::Absent { .. })), "{absent:?}");

    // A second push finds everything there.
    let (again, told) = super::watcher();
    registry.push(&model(), &model_.manifest, &model_.library(), &rules, &again).await.unwrap();
    let steps = Manifest::parse(&model_.manifest).unwrap().layers.len() + 2;
    assert_eq!(told.lock().unwrap().len(), steps, "nothing was sent: {told:?}");
    assert_eq!(told.lock().unwrap().last(), Some(&PushStep::Manifest), "the manifest is");
    assert!(running.data().join("docker").exists(), "it was this registry that kept it");
}

#[tokio::test]
async fn a_blob_is_mounted() {
    let Some(running) = Distribution::start(Access::Open) else { return };
    let blob = large();
    let model_ = Model::of(&[b"{}", &blob]);
    let registry = client_of(&running, SignIn::anonymous());
    let (watcher, _) = watcher();
    registry.push(&model(), &model_.manifest, &model_.library(), &rules_of(300_000), &watcher).await.unwrap();
    let manifest = String::from_utf8(model_.manifest.clone()).unwrap();
    let from = format!("\"size\":{},\"from\":\"{}/library/m:latest\"", blob.len(), running.host());
    let manifest = manifest.replace(&format!("\"size\":{}", blob.len()), &from);
    assert!(manifest.contains("from"), "the layer names its source: {manifest}");
    let name = format!("{}/me/derived:latest", running.host()).parse().unwrap();
    let (watcher, told) = super::watcher();
    registry.push(&name, manifest.as_bytes(), &model_.library(), &rules_of(1000), &watcher).await.unwrap();
    assert!(told.lock().unwrap().len() < 10, "the large blob was not sent again: {}", told.lock().unwrap().len());
    assert_eq!(registry.manifest(&name).await.unwrap().bytes, manifest, "a model of its own");
}

fn rules_of(part_bytes: u64) -> crate::PushRules {
    crate::PushRules { min_part_bytes: part_bytes, max_part_bytes: part_bytes, ..rules() }
}

#[tokio::test]
async fn a_password_opens_it() {
    // The user `u` with the password `p`, as htpasswd writes them with bcrypt.
    let users = "u:$2y$04$bDUoMtO8iG0L2wW6gqtEce7jr4Wljqg/kQUXE6vFYNI8vB/fiEPIK\n";
    let Some(running) = Distribution::start(Access::Htpasswd(users)) else { return };
    let model_ = Model::of(&[b"{}", b"weights"]);
    let (watcher, _) = watcher();
    let registry = client_of(&running, SignIn::password("u", "p"));
    registry.push(&model(), &model_.manifest, &model_.library(), &rules(), &watcher).await.unwrap();
    pull(&registry, &Digest::of(b"weights"), b"weights").await;
    let stranger = client_of(&running, SignIn::password("u", "wrong"));
    let got = stranger.push(&model(), &model_.manifest, &model_.library(), &rules(), &watcher).await;
    assert!(matches!(got, Err(PushError::Registry(SourceError::Refused { .. }))), "{got:?}");
}

#[tokio::test]
async fn tokens_open_it() {
    let server = TokenServer::start("u", "p");
    let Some(running) = Distribution::start(Access::Tokens(&server)) else { return };
    let model_ = Model::of(&[b"{}", b"weights"]);
    let (watcher, _) = watcher();
    let realms = || [server.host()];
    let opened = client_of(&running, SignIn::password("u", "p").trusting_realms(realms()));
    opened.push(&model(), &model_.manifest, &model_.library(), &rules(), &watcher).await.unwrap();
    assert_eq!(opened.manifest(&model()).await.unwrap().bytes, model_.manifest, "it comes back");
    pull(&opened, &Digest::of(b"weights"), b"weights").await;
    assert_eq!(server.requests().len(), 2, "one token to write, one to read: {:?}", server.requests());
    let stranger = client_of(&running, SignIn::password("u", "wrong").trusting_realms(realms()));
    let got = stranger.manifest(&model()).await;
    assert!(matches!(got, Err(SourceError::Refused { .. })), "{got:?}");
}
