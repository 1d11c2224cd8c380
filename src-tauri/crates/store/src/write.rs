//! Writer of a library. Blobs are written first and the manifest last, so that a crash never leaves a model without its blobs.
//!
//! Programs that share a library exclude each other with a lock file while they write manifests or remove blobs that another
//! program may be about to reference. Imports of large files need no lock: the contents are written to a temporary file, which is
//! renamed at the end.

mod copy;
mod error;
mod garbage;
mod import_file;
mod move_file;
mod publish;
mod receive;
mod source;
mod stage;

use std::collections::HashSet;
use std::path::Path;
use std::sync::OnceLock;

use cairn_disk::{Disk, Lock, Mode};

use crate::library::MAX_TEXT_BYTES;
use crate::references::References;
use crate::{BlobDefect, Digest, Layer, LayerKind, Library, MAX_LAYERS, Manifest, ModelRef, StoredModel};
pub use copy::CopiedModel;
pub use error::WriteError;
pub(crate) use garbage::garbage_files;
pub use garbage::{GcOptions, GcReport};
pub use import_file::{ImportMethod, ImportedBlob, Progress, Stage};
pub use move_file::PendingMove;
pub use publish::PublishedModel;
pub use receive::BlobReceiver;

/// Lock file, held while a manifest is written or removed. Ollama ignores files beside its two folders.
const LOCK: &str = "cairn.lock";

/// Deleted model.
#[derive(Debug, Clone)]
pub struct DeletedModel {
    /// Name, as it was spelled on disk.
    pub name: ModelRef,
    /// The manifest, unless it was damaged.
    pub manifest: Option<Manifest>,
    /// Bytes that the deletion freed.
    pub freed_bytes: u64,
}

/// Adds blobs and models to a library and removes them.
pub struct LibraryWriter<'a> {
    library: &'a Library,
    disk: &'a dyn Disk,
    reserve_bytes: u64,
    pinned: HashSet<Digest>,
    /// References when the first existing blob was reused; see [`LibraryWriter::protect_blob`].
    references: OnceLock<References>,
}

impl<'a> LibraryWriter<'a> {
    /// Creates missing folders of the library and removes temporary files of killed programs.
    ///
    /// # Errors
    /// If the library is not writable.
    pub fn open(library: &'a Library, disk: &'a dyn Disk) -> Result<Self, WriteError> {
        disk.create_dir_all(&library.blobs())?;
        disk.create_dir_all(&library.manifests())?;
        disk.create_dir_all(&library.temp_files())?;
        // Earlier versions had temporary files among the blobs.
        for folder in [library.temp_files(), library.blobs()] {
            disk.remove_stale_temp_files(&folder)?;
        }
        Ok(Self { library, disk, reserve_bytes: 0, pinned: HashSet::new(), references: OnceLock::new() })
    }

    /// Sets the free space that copies must leave on the disk.
    #[must_use]
    pub fn with_reserve(self, reserve_bytes: u64) -> Self {
        Self { reserve_bytes, ..self }
    }

    /// Sets blobs that are never removed, although no manifest references them yet: a running pull needs them.
    #[must_use]
    pub fn with_pinned_blobs(self, pinned: Vec<Digest>) -> Self {
        Self { pinned: pinned.into_iter().collect(), ..self }
    }

    /// Writes `bytes` as a blob, unless the library has it.
    ///
    /// # Errors
    /// [`WriteError::LongText`] for a text that is too long to be read again, or a disk error.
    pub fn put(&self, kind: LayerKind, bytes: &[u8]) -> Result<Layer, WriteError> {
        let layer = Layer { kind, digest: Digest::of(bytes), size_bytes: bytes.len() as u64 };
        if layer.kind != LayerKind::Model && layer.size_bytes > MAX_TEXT_BYTES {
            let (kind, size_bytes) = (layer.kind.media_type().into_owned(), layer.size_bytes);
            return Err(WriteError::LongText { kind, size_bytes, max_bytes: MAX_TEXT_BYTES });
        }
        if !self.has_valid_blob(layer.digest, layer.size_bytes, &mut |_| true)? {
            self.disk.write_atomic(&self.library.blob_path(&layer.digest), bytes, Mode::Shared)?;
        }
        Ok(layer)
    }

    /// Saves a model of blobs that are in the library, with `config` as its JSON config. An existing model of that name is replaced
    /// only with `replace`. Saving the same model again changes nothing.
    ///
    /// # Errors
    /// [`WriteError::NameTaken`] or [`WriteError::TooManyLayers`]; if blobs are missing; or on disk errors.
    pub fn save(
        &self,
        name: &ModelRef,
        config: &[u8],
        layers: &[Layer],
        replace: bool,
    ) -> Result<StoredModel, WriteError> {
        if layers.len() > MAX_LAYERS {
            return Err(WriteError::TooManyLayers { layers: layers.len() });
        }
        let config = self.put(LayerKind::config(), config)?;
        let bytes = Manifest::to_json(&config, layers);
        let _lock = self.lock()?;
        for layer in layers.iter().chain([&config]) {
            self.library.blob(layer)?;
        }
        self.write_manifest(name, &bytes, replace)
    }

    /// Writes a manifest whose blobs all exist. The caller holds the lock.
    fn write_manifest(&self, name: &ModelRef, bytes: &[u8], replace: bool) -> Result<StoredModel, WriteError> {
        // A damaged manifest occupies its name, although no program can use it.
        let (path, existing) = self.library.manifest_path(name)?;
        let before = existing.as_ref().and_then(|_| self.library.find(name).ok().flatten());
        let name = existing.clone().unwrap_or_else(|| name.clone());
        if let Some(model) = before.as_ref().filter(|model| model.manifest.digest == Digest::of(bytes)) {
            return Ok(model.clone());
        }
        if existing.is_some() && !replace {
            return Err(WriteError::NameTaken { name: name.to_string() });
        }
        self.disk.create_dir_all(path.parent().unwrap_or_else(|| Path::new(".")))?;
        self.disk.write_atomic(&path, bytes, Mode::Shared)?;
        if let Some(before) = before {
            self.remove_unreferenced_blobs(&before.manifest);
        }
        self.library.find(&name)?.ok_or_else(|| WriteError::NameTaken { name: name.to_string() })
    }

    /// Deletes a model and the blobs that no other model references. Returns `None` if there is no such model. A model with a
    /// damaged manifest is deleted too; its blobs stay for [`LibraryWriter::collect_garbage`].
    ///
    /// # Errors
    /// If the manifest cannot be removed. Blobs that cannot be removed stay and only take space.
    pub fn delete(&self, name: &ModelRef) -> Result<Option<DeletedModel>, WriteError> {
        let _lock = self.lock()?;
        let (path, existing) = self.library.manifest_path(name)?;
        let Some(name) = existing else { return Ok(None) };
        let manifest = self.library.find(&name).ok().flatten().map(|model| model.manifest);
        self.disk.remove(&path)?;
        // Folders of other models are not empty, so their removal fails.
        let manifests = self.library.manifests();
        for folder in path.ancestors().skip(1).take_while(|folder| **folder != *manifests) {
            if std::fs::remove_dir(folder).is_err() {
                break;
            }
        }
        let freed_bytes = manifest.as_ref().map_or(0, |manifest| self.remove_unreferenced_blobs(manifest));
        Ok(Some(DeletedModel { name, manifest, freed_bytes }))
    }

    /// Removes a blob if its bytes do not match its digest, so that it is downloaded again. Returns whether it was removed.
    ///
    /// # Errors
    /// A disk error.
    pub fn discard(&self, digest: &Digest) -> Result<bool, WriteError> {
        let _lock = self.lock()?;
        // Another program may have repaired the blob since the defect was found, so it is verified again.
        match self.library.verify_blob(digest, None, &mut |_| true) {
            Some(Err(BlobDefect::Contents { .. })) => {
                self.disk.remove(&self.library.blob_path(digest))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Removes a blob that was added for a model that could not be saved, unless another model references it.
    pub fn remove_unreferenced(&self, layer: &Layer) {
        if let Ok(_lock) = self.lock() {
            self.remove_unreferenced_blobs(&Manifest {
                digest: layer.digest,
                schema_version: None,
                config: None,
                layers: vec![layer.clone()],
            });
        }
    }

    /// Removes the blobs of a manifest that no manifest references any more, and returns the bytes freed. If any manifest cannot be
    /// read, its references are unknown and all blobs stay.
    fn remove_unreferenced_blobs(&self, manifest: &Manifest) -> u64 {
        let references = References::of(self.library);
        if !references.unreadable.is_empty() {
            return 0;
        }
        let mut unreferenced: Vec<Digest> = manifest.layers.iter().chain(&manifest.config).map(|l| l.digest).collect();
        unreferenced.retain(|digest| !references.contains(digest) && !self.pinned.contains(digest));
        unreferenced.sort_unstable();
        unreferenced.dedup();
        // Errors are ignored: the blob may be gone already, and one that stays only takes space.
        let removed = unreferenced.iter().filter_map(|digest| self.remove_file(&self.library.blob_path(digest)).ok());
        removed.sum()
    }

    /// Removes a file and returns the bytes freed: 0 if the file has another hard link.
    fn remove_file(&self, path: &Path) -> Result<u64, WriteError> {
        let freed_bytes = std::fs::symlink_metadata(path).map_or(0, |metadata| freed_bytes(&metadata));
        self.disk.remove(path)?;
        Ok(freed_bytes)
    }

    /// Acquires the library's lock. No other program adds or removes models while the result lives.
    fn lock(&self) -> Result<Lock, WriteError> {
        Ok(Lock::acquire(&self.library.root().join(LOCK))?)
    }
}

/// Returns the bytes that removing this name of a file frees.
fn freed_bytes(file: &std::fs::Metadata) -> u64 {
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(file) > 1 {
        return 0;
    }
    file.len()
}

#[cfg(test)]
mod tests;
