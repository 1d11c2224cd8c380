//! Writing to a library: contents first, then the manifest that names them, so that a crash at any point leaves contents
//! without a model and never a model without contents.
//!
//! Programs that share a library take turns, by a lock on a file in it, where one takes out what another may be about to
//! name. Bringing in a large file needs no turn: it becomes a blob under a draft's name and gets its real one at the end.

mod bring;
mod copy;
mod error;
mod garbage;
mod moving;
mod publish;
mod receive;
mod source;
mod stage;

use std::path::Path;

use cairn_disk::{Disk, Lock, Mode};

use crate::library::MAX_TEXT_BYTES;
use crate::references::References;
use crate::{Digest, Flaw, Layer, LayerKind, Library, Manifest, ModelRef, StoredModel};
pub use bring::{Brought, Progress, Stage, Way, digest_of};
pub use copy::CopiedModel;
pub use error::WriteError;
pub use garbage::{Collected, Garbage, Leftover, LeftoverKind};
pub(crate) use garbage::{leftovers, on_disk};
pub use moving::Departing;
pub use publish::Published;
pub use receive::Receiving;

/// Taken by whoever writes a manifest or takes one out. Ollama passes over files beside its two folders.
const LOCK: &str = "cairn.lock";

/// A model that was taken out.
#[derive(Debug, Clone)]
pub struct Deleted {
    /// Its name, as it was spelled.
    pub name: ModelRef,
    /// What it was made of, unless its manifest was damaged.
    pub manifest: Option<Manifest>,
    /// Bytes that are free now.
    pub freed_bytes: u64,
}

/// Puts contents and models into a library, and takes models out.
pub struct LibraryWriter<'a> {
    library: &'a Library,
    disk: &'a dyn Disk,
    reserve_bytes: u64,
    kept: Vec<Digest>,
}

impl<'a> LibraryWriter<'a> {
    /// Makes the library's folders where they are missing, and clears away what killed programs left half-written.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn open(library: &'a Library, disk: &'a dyn Disk) -> Result<Self, WriteError> {
        disk.create_dir_all(&library.blobs())?;
        disk.create_dir_all(&library.manifests())?;
        disk.create_dir_all(&library.drafts())?;
        // Versions before this one had drafts among the contents.
        for folder in [library.drafts(), library.blobs()] {
            disk.remove_dead_drafts(&folder)?;
        }
        Ok(Self { library, disk, reserve_bytes: 0, kept: Vec::new() })
    }

    /// The same, and no copy takes the last `reserve_bytes` of the disk.
    #[must_use]
    pub fn keeping_free(self, reserve_bytes: u64) -> Self {
        Self { reserve_bytes, ..self }
    }

    /// The same, and these contents stay though no manifest names them yet: a model that is on its way counts on them.
    #[must_use]
    pub fn keeping(self, kept: Vec<Digest>) -> Self {
        Self { kept, ..self }
    }

    /// Puts in the contents `bytes`, unless they are there.
    ///
    /// # Errors
    /// [`WriteError::LongText`] for a text that could not be read again, or when the disk refuses.
    pub fn put(&self, kind: LayerKind, bytes: &[u8]) -> Result<Layer, WriteError> {
        let layer = Layer { kind, digest: Digest::of(bytes), size_bytes: bytes.len() as u64 };
        if layer.kind != LayerKind::Model && layer.size_bytes > MAX_TEXT_BYTES {
            let (kind, size_bytes) = (layer.kind.media_type().into_owned(), layer.size_bytes);
            return Err(WriteError::LongText { kind, size_bytes, most_bytes: MAX_TEXT_BYTES });
        }
        if !self.sound(layer.digest, layer.size_bytes, &mut |_| true)? {
            self.disk.write_atomic(&self.library.blob_path(&layer.digest), bytes, Mode::Shared)?;
        }
        Ok(layer)
    }

    /// Names contents that are in the library: from now on there is such a model, described by `config`, which is JSON. A
    /// model of that name gives way only with `replace`; the same one again changes nothing.
    ///
    /// # Errors
    /// [`WriteError::NameTaken`], or when contents are missing, or the disk refuses.
    pub fn save(
        &self,
        name: &ModelRef,
        config: &[u8],
        layers: &[Layer],
        replace: bool,
    ) -> Result<StoredModel, WriteError> {
        let config = self.put(LayerKind::config(), config)?;
        let bytes = Manifest::to_json(&config, layers);
        let _turn = self.turn()?;
        for layer in layers.iter().chain([&config]) {
            self.library.blob(layer)?;
        }
        self.write_manifest(name, &bytes, replace)
    }

    /// Writes a manifest whose contents are all there, in the writer's turn.
    fn write_manifest(&self, name: &ModelRef, bytes: &[u8], replace: bool) -> Result<StoredModel, WriteError> {
        // A manifest that cannot be read is in nobody's use, but its name is taken all the same.
        let (path, there) = self.library.manifest_path(name)?;
        let before = there.as_ref().and_then(|_| self.library.find(name).ok().flatten());
        let name = there.clone().unwrap_or_else(|| name.clone());
        if let Some(model) = before.as_ref().filter(|model| model.manifest.digest == Digest::of(bytes)) {
            return Ok(model.clone());
        }
        if there.is_some() && !replace {
            return Err(WriteError::NameTaken { name: name.to_string() });
        }
        self.disk.create_dir_all(path.parent().unwrap_or_else(|| Path::new(".")))?;
        self.disk.write_atomic(&path, bytes, Mode::Shared)?;
        if let Some(before) = before {
            self.remove_unnamed(&before.manifest);
        }
        self.library.find(&name)?.ok_or_else(|| WriteError::NameTaken { name: name.to_string() })
    }

    /// Takes out a model, and those of its contents that no other model has; `None` when there is no such model. One whose
    /// manifest is damaged goes too, and leaves its contents for [`LibraryWriter::collect_garbage`].
    ///
    /// # Errors
    /// When the disk refuses to remove the manifest. Contents that cannot be removed are left: they cost space only.
    pub fn delete(&self, name: &ModelRef) -> Result<Option<Deleted>, WriteError> {
        let _turn = self.turn()?;
        let (path, there) = self.library.manifest_path(name)?;
        let Some(name) = there else { return Ok(None) };
        let manifest = self.library.find(&name).ok().flatten().map(|model| model.manifest);
        self.disk.remove(&path)?;
        // Folders that others use are not empty, and stay.
        let manifests = self.library.manifests();
        for folder in path.ancestors().skip(1).take_while(|folder| **folder != *manifests) {
            if std::fs::remove_dir(folder).is_err() {
                break;
            }
        }
        let freed_bytes = manifest.as_ref().map_or(0, |manifest| self.remove_unnamed(manifest));
        Ok(Some(Deleted { name, manifest, freed_bytes }))
    }

    /// Takes out contents that are not what their name says, so that whoever needs them fetches them anew. Contents that
    /// are sound stay, and the answer is `false`.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn discard(&self, digest: &Digest) -> Result<bool, WriteError> {
        let _turn = self.turn()?;
        // Another program may have put sound ones in their place since somebody looked.
        match self.library.check(digest, None, &mut |_| true) {
            Some(Err(Flaw::Contents { .. })) => {
                self.disk.remove(&self.library.blob_path(digest))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Takes out contents that were brought in for a model that did not come to be, unless a model has them.
    pub fn forget(&self, layer: &Layer) {
        if let Ok(_turn) = self.turn() {
            self.remove_unnamed(&Manifest {
                digest: layer.digest,
                schema_version: None,
                config: None,
                layers: vec![layer.clone()],
            });
        }
    }

    /// Removes those contents of a manifest that no manifest names any more, and returns the bytes that are free now. Where
    /// something among the manifests cannot be read at all, nobody knows what it names, and all stay.
    fn remove_unnamed(&self, manifest: &Manifest) -> u64 {
        let references = References::of(self.library);
        if !references.unread.is_empty() {
            return 0;
        }
        let mut unnamed: Vec<Digest> = manifest.layers.iter().chain(&manifest.config).map(|l| l.digest).collect();
        unnamed.retain(|digest| !references.names(digest) && !self.kept.contains(digest));
        unnamed.sort_unstable();
        unnamed.dedup();
        // It may be gone already; and what stays behind costs space and nothing else.
        let removed = unnamed.iter().filter_map(|digest| self.remove_file(&self.library.blob_path(digest)).ok());
        removed.sum()
    }

    /// Removes a file, and returns the bytes that are free now: none while it has another name.
    fn remove_file(&self, path: &Path) -> Result<u64, WriteError> {
        let freed_bytes = std::fs::symlink_metadata(path).map_or(0, |found| freed_bytes(&found));
        self.disk.remove(path)?;
        Ok(freed_bytes)
    }

    /// Waits until no other program changes which models there are, and keeps it so while the result lives.
    fn turn(&self) -> Result<Lock, WriteError> {
        Ok(Lock::take(&self.library.root().join(LOCK))?)
    }
}

/// Bytes that removing this name of a file frees.
fn freed_bytes(file: &std::fs::Metadata) -> u64 {
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(file) > 1 {
        return 0;
    }
    file.len()
}

#[cfg(test)]
mod tests;
