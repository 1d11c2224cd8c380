//! Pushes to test servers and to a real registry.

mod direct;
mod distribution;
mod oci;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cairn_store::{Digest, Layer, LayerKind, Library, Manifest};

use crate::tests::test_server::{TestServer, model};
use crate::{Credentials, PushConfig, PushError, PushStep, PushWatcher};

/// A library with one model. The first blob is its config.
pub(super) struct Model {
    folder: tempfile::TempDir,
    pub(super) manifest: Vec<u8>,
}

impl Model {
    pub(super) fn of(blobs: &[&[u8]]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let layers: Vec<Layer> = blobs.iter().map(|bytes| write_blob(folder.path(), bytes)).collect();
        let config = Layer { kind: LayerKind::config(), ..layers[0].clone() };
        let manifest = Manifest::to_json(&config, &layers[1..]);
        Self { folder, manifest }
    }

    pub(super) fn library(&self) -> Library {
        Library::new(self.folder.path().to_owned())
    }

    pub(super) fn blob_path(&self, bytes: &[u8]) -> PathBuf {
        self.library().blob_path(&Digest::of(bytes))
    }
}

fn write_blob(library: &Path, bytes: &[u8]) -> Layer {
    let digest = Digest::of(bytes);
    std::fs::create_dir_all(library.join("blobs")).unwrap();
    std::fs::write(library.join("blobs").join(digest.file_name()), bytes).unwrap();
    Layer { kind: LayerKind::Model, digest, size_bytes: bytes.len() as u64 }
}

/// Parts of ten bytes, and hardly a pause between retries.
pub(super) fn config() -> PushConfig {
    PushConfig {
        min_part_bytes: 10,
        max_part_bytes: 10,
        direct_streams: 2,
        max_attempts: 3,
        backoff: Duration::from_millis(1),
    }
}

/// Returns a watcher that records all steps, and the record.
pub(super) fn watcher() -> (PushWatcher, Arc<Mutex<Vec<PushStep>>>) {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&steps);
    (Arc::new(move |step| recorded.lock().unwrap().push(step)), steps)
}

pub(super) async fn push(
    served: &TestServer,
    model_: &Model,
    sign_in: Credentials,
) -> Result<Vec<PushStep>, PushError> {
    let (watcher, steps) = watcher();
    let library = model_.library();
    served.registry(sign_in).push(&model(), &model_.manifest, &library, &config(), &watcher).await?;
    let steps = steps.lock().unwrap().clone();
    assert_eq!(steps.last(), Some(&PushStep::Manifest), "the manifest is sent last");
    let mut before = std::collections::HashMap::new();
    for step in &steps {
        if let PushStep::Blob { digest, size_bytes, sent_bytes } = step {
            assert!(sent_bytes <= size_bytes, "not more than the size: {steps:?}");
            let last = before.insert(*digest, *sent_bytes).unwrap_or(0);
            assert!(*sent_bytes >= last, "sent bytes never decrease: {steps:?}");
        }
    }
    for layer in Manifest::parse(&model_.manifest).unwrap().layers {
        assert_eq!(before.get(&layer.digest), Some(&layer.size_bytes), "the whole blob is reported at the end");
    }
    Ok(steps)
}
