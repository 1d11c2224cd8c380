//! Publishing of a pulled model: its blobs are moved from the staging folder into the library, then the manifest is written.

use std::path::Path;

use cairn_disk::Mode;

use super::{LibraryWriter, WriteError};
use crate::{Digest, Library, LibraryError, Manifest, ModelRef, Staging, StoredModel};

/// Published model.
#[derive(Debug, Clone)]
pub struct PublishedModel {
    /// The model.
    pub model: StoredModel,
    /// Blobs of the replaced model that no model references any more. They were removed.
    pub removed: Vec<Digest>,
}

impl LibraryWriter<'_> {
    /// Publishes a model whose blobs are in the library or ready in `staging`. The manifest `bytes` are stored unchanged. An existing
    /// model of that name is replaced, and with `prune` its unreferenced blobs are removed.
    ///
    /// # Errors
    /// If the bytes are not a manifest, a blob is neither in the library nor ready, or on disk errors. The model is not published
    /// then, and the blobs stay for the next attempt.
    pub fn publish(
        &self,
        staging: &Staging,
        name: &ModelRef,
        bytes: &[u8],
        prune: bool,
    ) -> Result<PublishedModel, WriteError> {
        let _lock = self.lock()?;
        let (path, existing) = self.library.manifest_path(name)?;
        let manifest =
            Manifest::parse(bytes).map_err(|reason| LibraryError::Manifest { path: path.clone(), reason })?;
        let blobs = || manifest.layers.iter().chain(&manifest.config);
        for layer in blobs() {
            // The staged blob was verified, so it replaces an existing file that may not be.
            if let Some(ready) = staging.ready(&layer.digest, layer.size_bytes) {
                self.disk.rename(&ready, &self.library.blob_path(&layer.digest))?;
            }
        }
        for layer in blobs() {
            self.library.blob(layer)?;
        }
        let before = existing.as_ref().and_then(|_| self.library.find(name).ok().flatten());
        self.disk.create_dir_all(path.parent().unwrap_or_else(|| Path::new(".")))?;
        self.disk.write_atomic(&path, bytes, Mode::Shared)?;
        let name = existing.unwrap_or_else(|| name.clone());
        let missing = || WriteError::NameTaken { name: name.to_string() };
        let model = self.library.find(&name)?.ok_or_else(missing)?;
        let removed = match before {
            Some(before) if prune => self.prune(self.library, &before.manifest),
            _ => Vec::new(),
        };
        Ok(PublishedModel { model, removed })
    }

    fn prune(&self, library: &Library, before: &Manifest) -> Vec<Digest> {
        let exists = |digest: &Digest| library.blob_path(digest).exists();
        let mut digests: Vec<Digest> = before.layers.iter().chain(&before.config).map(|layer| layer.digest).collect();
        digests.retain(exists);
        self.remove_unreferenced_blobs(before);
        digests.retain(|digest| !exists(digest));
        digests.sort_unstable();
        digests.dedup();
        digests
    }
}
