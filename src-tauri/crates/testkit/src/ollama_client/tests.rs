//! Registries that Ollama's client can and cannot pull from.

use std::sync::Arc;

use super::*;
use crate::registry::{FakeRegistry, Faults};

fn registry(faults: Faults) -> FakeRegistry {
    let registry = FakeRegistry::start(1, faults).unwrap();
    let blob: Arc<[u8]> = vec![7; 100_000].into();
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(&blob)));
    let layer = serde_json::json!({"digest": digest, "size": blob.len()});
    registry.put_manifest(
        "library/m",
        "latest",
        &serde_json::to_vec(&serde_json::json!({"config": layer, "layers": [layer]})).unwrap(),
    );
    registry.put_blob(&digest, blob);
    registry
}

#[test]
fn pull_from_storage_host_succeeds() {
    for sign_in in [false, true] {
        let registry = registry(Faults { redirect: true, sign_in, ..Faults::default() });
        let store = tempfile::tempdir().unwrap();
        pull(&registry.host(), "library/m", "latest", store.path()).unwrap();
        let blobs = fs::read_dir(store.path().join("blobs")).unwrap().count();
        assert_eq!(blobs, 1, "the blob, referenced twice, is stored once");
        let leaked = registry
            .requests()
            .into_iter()
            .any(|received| received.at_storage && received.request.header("authorization").is_some());
        assert!(!leaked, "the storage receives no credentials");
    }
}

/// Ollama's client downloads a blob only from a host that the registry redirects to.
#[test]
fn pull_from_registry_without_redirects_fails() {
    let registry = registry(Faults::default());
    let store = tempfile::tempdir().unwrap();
    let error = pull(&registry.host(), "library/m", "latest", store.path()).unwrap_err();
    assert_eq!(error, "http: no Location header in response", "the message of Ollama's client");
    let error = pull(&registry.host(), "library/x", "latest", store.path()).unwrap_err();
    assert_eq!(error, "file does not exist", "an unknown model");
}
