//! Pushes to registries of every kind, and to one that is real.

mod direct;
mod distribution;
mod plain;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cairn_store::{Digest, Layer, LayerKind, Library, Manifest};

use crate::served::{Served, model};
use crate::{PushError, PushRules, PushStep, PushWatcher, SignIn};

/// A library with one model of these layers; the first is its config.
pub(super) struct Model {
    folder: tempfile::TempDir,
    pub(super) manifest: Vec<u8>,
}

impl Model {
    pub(super) fn of(blobs: &[&[u8]]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let layers: Vec<Layer> = blobs.iter().map(|bytes| keep(folder.path(), bytes)).collect();
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

fn keep(library: &Path, bytes: &[u8]) -> Layer {
    let digest = Digest::of(bytes);
    std::fs::create_dir_all(library.join("blobs")).unwrap();
    std::fs::write(library.join("blobs").join(digest.file_name()), bytes).unwrap();
    Layer { kind: LayerKind::Model, digest, size_bytes: bytes.len() as u64 }
}

/// Parts of ten bytes, and hardly a pause between tries.
pub(super) fn rules() -> PushRules {
    PushRules { min_part_bytes: 10, max_part_bytes: 10, direct_streams: 2, tries: 3, pause: Duration::from_millis(1) }
}

/// Remembers what it is told.
pub(super) fn watcher() -> (PushWatcher, Arc<Mutex<Vec<PushStep>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&told);
    (Arc::new(move |step| keep.lock().unwrap().push(step)), told)
}

pub(super) async fn push(served: &Served, model_: &Model, sign_in: SignIn) -> Result<Vec<PushStep>, PushError> {
    let (watcher, told) = watcher();
    let library = model_.library();
    served.registry(sign_in).push(&model(), &model_.manifest, &library, &rules(), &watcher).await?;
    let told = told.lock().unwrap().clone();
    assert_eq!(told.last(), Some(&PushStep::Manifest), "the manifest goes last");
    let mut before = std::collections::HashMap::new();
    for step in &told {
        if let PushStep::Blob { digest, size_bytes, sent_bytes } = step {
            assert!(sent_bytes <= size_bytes, "no more than there is: {told:?}");
            let last = before.insert(*digest, *sent_bytes).unwrap_or(0);
            assert!(*sent_bytes >= last, "what is sent never becomes less: {told:?}");
        }
    }
    for layer in Manifest::parse(&model_.manifest).unwrap().layers {
        assert_eq!(before.get(&layer.digest), Some(&layer.size_bytes), "all of it is there in the end");
    }
    Ok(told)
}
