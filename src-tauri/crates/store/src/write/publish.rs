//! Publishing a model that was fetched: its blobs leave the staging folder, and then its manifest is written, last.

use std::path::Path;

use cairn_disk::Mode;

use super::{LibraryWriter, WriteError};
use crate::{Digest, Library, LibraryError, Manifest, ModelRef, Staging, StoredModel};

/// A model that was published.
#[derive(Debug, Clone)]
pub struct Published {
    /// What it is.
    pub model: StoredModel,
    /// Contents that the model of this name had before and that no model has any more. They were removed.
    pub removed: Vec<Digest>,
}

impl LibraryWriter<'_> {
    /// Names blobs that are in the library or ready in `staging`: from now on there is such a model, of the manifest
    /// `bytes`, which are kept as they came. One of that name gives way, and with `prune` those of its contents go that
    /// nothing else has.
    ///
    /// # Errors
    /// When the bytes are no manifest, a blob is neither here nor ready, or the disk refuses. There is then no new model,
    /// and the blobs are still here for the next try.
    pub fn publish(
        &self,
        staging: &Staging,
        name: &ModelRef,
        bytes: &[u8],
        prune: bool,
    ) -> Result<Published, WriteError> {
        let _turn = self.turn()?;
        let (path, there) = self.library.manifest_path(name)?;
        let manifest =
            Manifest::parse(bytes).map_err(|reason| LibraryError::Manifest { path: path.clone(), reason })?;
        let blobs = || manifest.layers.iter().chain(&manifest.config);
        for layer in blobs() {
            // One that is here already, under a name that nobody vouched for, gives way to the one that was checked.
            if let Some(ready) = staging.ready(&layer.digest, layer.size_bytes) {
                self.disk.rename(&ready, &self.library.blob_path(&layer.digest))?;
            }
        }
        for layer in blobs() {
            self.library.blob(layer)?;
        }
        let before = there.as_ref().and_then(|_| self.library.find(name).ok().flatten());
        self.disk.create_dir_all(path.parent().unwrap_or_else(|| Path::new(".")))?;
        self.disk.write_atomic(&path, bytes, Mode::Shared)?;
        let name = there.unwrap_or_else(|| name.clone());
        let missing = || WriteError::NameTaken { name: name.to_string() };
        let model = self.library.find(&name)?.ok_or_else(missing)?;
        let removed = match before {
            Some(before) if prune => self.prune(self.library, &before.manifest),
            _ => Vec::new(),
        };
        Ok(Published { model, removed })
    }

    fn prune(&self, library: &Library, before: &Manifest) -> Vec<Digest> {
        let present = |digest: &Digest| library.blob_path(digest).exists();
        let mut digests: Vec<Digest> = before.layers.iter().chain(&before.config).map(|layer| layer.digest).collect();
        digests.retain(present);
        self.remove_unnamed(before);
        digests.retain(|digest| !present(digest));
        digests.sort_unstable();
        digests.dedup();
        digests
    }
}
