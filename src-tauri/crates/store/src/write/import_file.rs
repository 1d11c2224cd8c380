//! Imports of large files as blobs.
//!
//! A reflink takes no space and no time, and both files stay independent. Without reflinks the file is copied and hashed in one
//! pass. A hard link is made only on request: it takes no space, but both names refer to one file, so the file is made read-only
//! first. [`move_file`](super::move_file) implements moves.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::Path;

use cairn_disk::{Mode, TempFile};
use sha2::Digest as _;

use super::source::{ReadOnly, Source, different_devices, set_permissions};
use super::{LibraryWriter, WriteError};
use crate::hash::read_chunks;
use crate::references::References;
use crate::{Digest, Layer, LayerKind};

/// Imported blob and the way it was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedBlob {
    /// The blob, of the kind [`LayerKind::Model`].
    pub layer: Layer,
    /// How the contents were imported.
    pub method: ImportMethod,
}

/// How contents were imported into a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportMethod {
    /// The library had the blob already.
    Present,
    /// The blob shares the file's extents until either is changed.
    Reflinked,
    /// The blob is a hard link to the file.
    Linked {
        /// The file was writable before.
        made_read_only: bool,
    },
    /// The blob is the file itself. The original path is removed when the model is saved.
    Moved,
    /// The contents were copied.
    Copied {
        /// Why there is no reflink.
        reason: String,
    },
}

/// Stage of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The file's digest is being computed.
    Hashing,
    /// The file is being copied and hashed.
    Copying,
}

/// Progress of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Current stage.
    pub stage: Stage,
    /// Bytes completed.
    pub done_bytes: u64,
    /// Size of the file.
    pub total_bytes: u64,
}

/// Receives the progress and returns whether to continue.
pub(super) type ProgressCallback<'a> = dyn FnMut(Progress) -> bool + 'a;

impl LibraryWriter<'_> {
    /// Imports the file at `path`. With `link` the blob is a hard link and the file becomes read-only. Otherwise the file is
    /// reflinked if possible, else copied. `on_progress` returns whether to continue.
    ///
    /// # Errors
    /// If the file cannot be read, changes meanwhile or does not fit, or on disk errors. Nothing has changed then.
    pub fn import_file(
        &self,
        path: &Path,
        link: bool,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<ImportedBlob, WriteError> {
        // A hard link must refer to the file, not to a symbolic link.
        let path = path.canonicalize().map_err(|source| WriteError::Source { path: path.to_owned(), source })?;
        let source = Source::open(path)?;
        let (digest, method) =
            if link { self.link(&source, on_progress)? } else { self.reflink_or_copy(&source, on_progress)? };
        Ok(ImportedBlob { layer: Layer { kind: LayerKind::Model, digest, size_bytes: source.size_bytes() }, method })
    }

    /// Imports contents that `fill` writes. `reason` explains why they are not a copy of one file.
    ///
    /// # Errors
    /// The errors of `fill`, reported for `path`; if the contents do not fit; or on disk errors. Nothing has changed then.
    pub fn import_generated(
        &self,
        path: &Path,
        size_bytes: u64,
        reason: &str,
        fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<ImportedBlob, WriteError> {
        self.check_free_space(size_bytes)?;
        let temp_file = self.create_temp_file()?;
        let hash = sha2::Sha256::new();
        let mut sink = Sink { temp_file, hash, done_bytes: 0, total_bytes: size_bytes, on_progress, error: None };
        if let Err(source) = fill(&mut sink) {
            return Err(sink.error.unwrap_or_else(|| WriteError::Source { path: path.to_owned(), source }));
        }
        let Sink { temp_file, hash, done_bytes, on_progress, .. } = sink;
        let layer = Layer { kind: LayerKind::Model, digest: Digest::of_hash(hash), size_bytes: done_bytes };
        let method = match self.persist_blob(temp_file, &layer, on_progress)? {
            true => ImportMethod::Present,
            false => ImportMethod::Copied { reason: reason.to_owned() },
        };
        Ok(ImportedBlob { layer, method })
    }

    pub(super) fn reflink_or_copy(
        &self,
        source: &Source,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<(Digest, ImportMethod), WriteError> {
        let mut temp_file = self.create_temp_file()?;
        let (digest, method) = match self.reflink(&mut *temp_file, source, on_progress)? {
            Ok(digest) => (digest, ImportMethod::Reflinked),
            Err(reason) => {
                if let Some(digest) = self.find_existing(source, on_progress)? {
                    return Ok((digest, ImportMethod::Present));
                }
                (self.copy_into(&mut *temp_file, source, on_progress)?, ImportMethod::Copied { reason })
            }
        };
        let layer = Layer { kind: LayerKind::Model, digest, size_bytes: source.size_bytes() };
        let was_present = self.persist_blob(temp_file, &layer, on_progress)?;
        Ok((digest, if was_present { ImportMethod::Present } else { method }))
    }

    /// Makes a temporary file a reflink of a file and returns its digest, or the reason why the file system cannot do that.
    pub(super) fn reflink(
        &self,
        temp_file: &mut dyn TempFile,
        source: &Source,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<Result<Digest, String>, WriteError> {
        if let Err(error) = temp_file.reflink(&source.file) {
            return Ok(Err(error.source.to_string()));
        }
        // The temporary file is hashed, because no other program writes to it.
        let path = temp_file.path();
        let file = File::open(path).map_err(|source| WriteError::Source { path: path.to_owned(), source })?;
        hash_source(&file, path, source.size_bytes(), Stage::Hashing, on_progress, &mut |_| Ok(())).map(Ok)
    }

    /// Copies a file into a temporary file and returns the digest of the copied bytes.
    pub(super) fn copy_into(
        &self,
        temp_file: &mut dyn TempFile,
        source: &Source,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<Digest, WriteError> {
        self.check_free_space(source.size_bytes())?;
        let mut write = |bytes: &[u8]| Ok(temp_file.write(bytes)?);
        let (file, path, size_bytes) = (&source.file, &source.path, source.size_bytes());
        let digest = hash_source(file, path, size_bytes, Stage::Copying, on_progress, &mut write)?;
        source.check_unchanged()?;
        Ok(digest)
    }

    /// Creates a temporary file for contents whose digest is not computed yet. It is in `.cairn`, because a running Ollama removes
    /// unrecognised files from `blobs`.
    pub(super) fn create_temp_file(&self) -> Result<Box<dyn TempFile>, WriteError> {
        Ok(self.disk.create_temp_file(&self.library.temp_files(), Mode::Shared)?)
    }

    /// Returns the file's digest if the library has its contents already. The file is hashed only if a blob has its length.
    fn find_existing(
        &self,
        source: &Source,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<Option<Digest>, WriteError> {
        let has_same_length = fs::read_dir(self.library.blobs()).is_ok_and(|entries| {
            let blobs = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("sha256-"));
            let mut files = blobs.flat_map(|entry| entry.metadata()).filter(fs::Metadata::is_file);
            files.any(|metadata| metadata.len() == source.size_bytes())
        });
        if !has_same_length {
            return Ok(None);
        }
        let digest = self.digest(source, on_progress)?;
        source.check_unchanged()?;
        Ok(self.has_valid_blob(digest, source.size_bytes(), on_progress)?.then_some(digest))
    }

    /// Computes the digest of a file.
    pub(super) fn digest(&self, source: &Source, on_progress: &mut ProgressCallback<'_>) -> Result<Digest, WriteError> {
        hash_source(&source.file, &source.path, source.size_bytes(), Stage::Hashing, on_progress, &mut |_| Ok(()))
    }

    /// Returns whether the library has a blob of this digest and length. A manifest is about to reference it, and garbage collectors
    /// delete unreferenced blobs by age, so the time of an unreferenced blob is set to now. A referenced blob keeps its time: the
    /// engine may have mapped it, and a new time would count as a change of the weights.
    fn protect_blob(&self, digest: Digest, size_bytes: u64) -> Result<bool, WriteError> {
        let layer = Layer { kind: LayerKind::Model, digest, size_bytes };
        let Ok(path) = self.library.blob(&layer) else { return Ok(false) };
        if self.references.get_or_init(|| References::of(self.library)).contains(&digest) {
            return Ok(true);
        }
        match self.disk.touch(&path) {
            // Another program removed it in the meantime.
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(false),
            // Another user's file keeps its time. In the worst case it is removed and the import fails once.
            Err(error) if error.source.kind() == io::ErrorKind::PermissionDenied => Ok(true),
            touched => Ok(touched.map(|()| true)?),
        }
    }

    /// Returns whether the library has a blob of this digest and length, after reading all its bytes: the caller may remove its
    /// own copy next. A damaged blob is removed.
    pub(super) fn has_valid_blob(
        &self,
        digest: Digest,
        size_bytes: u64,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<bool, WriteError> {
        if !self.protect_blob(digest, size_bytes)? {
            return Ok(false);
        }
        let mut on_bytes =
            |done_bytes| on_progress(Progress { stage: Stage::Hashing, done_bytes, total_bytes: size_bytes });
        match self.library.verify_blob(&digest, Some(size_bytes), &mut on_bytes) {
            None => Err(WriteError::Cancelled),
            Some(Ok(())) => Ok(true),
            Some(Err(_)) => self.discard(&digest).map(|_| false),
        }
    }

    pub(super) fn check_free_space(&self, need_bytes: u64) -> Result<(), WriteError> {
        let (folder, reserve_bytes) = (self.library.blobs(), self.reserve_bytes);
        match self.disk.free_bytes(&folder)? {
            free_bytes if free_bytes < need_bytes.saturating_add(reserve_bytes) => {
                Err(WriteError::NoSpace { need_bytes, free_bytes, reserve_bytes, folder })
            }
            _ => Ok(()),
        }
    }

    /// Renames a complete temporary file to its blob. Returns whether the library had the blob already.
    pub(super) fn persist_blob(
        &self,
        temp_file: Box<dyn TempFile>,
        layer: &Layer,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<bool, WriteError> {
        if self.has_valid_blob(layer.digest, layer.size_bytes, on_progress)? {
            return Ok(true);
        }
        temp_file.persist(&self.library.blob_path(&layer.digest))?;
        Ok(false)
    }

    fn link(
        &self,
        source: &Source,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<(Digest, ImportMethod), WriteError> {
        let store = self.library.blobs();
        let cross_device = || WriteError::CrossDeviceLink { path: source.path.clone(), store: store.clone() };
        let metadata =
            fs::metadata(&store).map_err(|error| WriteError::Source { path: store.clone(), source: error })?;
        if different_devices(&source.metadata, &metadata) {
            return Err(cross_device());
        }
        // Hashing takes minutes, and a program that is killed then must not leave the file read-only. Setting the current
        // permissions again tests now whether they can be changed later.
        let permissions = source.metadata.permissions();
        if !permissions.readonly() {
            set_permissions(source, permissions)?;
        }
        let digest = self.digest(source, on_progress)?;
        if self.has_valid_blob(digest, source.size_bytes(), on_progress)? {
            source.check_unchanged()?;
            return Ok((digest, ImportMethod::Present));
        }
        // The order matters: forbid writes, check that there were none, then link. Otherwise the digest could be of other
        // contents.
        let guard = ReadOnly::make(source)?;
        source.check_unchanged()?;
        match self.disk.link(&source.path, &self.library.blob_path(&digest)) {
            Ok(()) => Ok((digest, ImportMethod::Linked { made_read_only: guard.keep() })),
            Err(error) if error.source.kind() == io::ErrorKind::CrossesDevices => Err(cross_device()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Writer that hashes generated contents and appends them to a temporary file.
struct Sink<'a, 'w> {
    temp_file: Box<dyn TempFile>,
    hash: sha2::Sha256,
    done_bytes: u64,
    total_bytes: u64,
    on_progress: &'a mut ProgressCallback<'w>,
    /// The error behind the [`io::Error`] that `write` returned.
    error: Option<WriteError>,
}

impl Write for Sink<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.done_bytes += bytes.len() as u64;
        let progress = Progress { stage: Stage::Copying, done_bytes: self.done_bytes, total_bytes: self.total_bytes };
        self.hash.update(bytes);
        let written = match (self.on_progress)(progress) {
            true => self.temp_file.write(bytes).map_err(WriteError::from),
            false => Err(WriteError::Cancelled),
        };
        written.map(|()| bytes.len()).map_err(|error| {
            let io_error = io::Error::other(error.to_string());
            self.error = Some(error);
            io_error
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a whole file, passes its bytes to `write`, and returns their digest.
fn hash_source(
    mut file: &File,
    path: &Path,
    total_bytes: u64,
    stage: Stage,
    on_progress: &mut ProgressCallback<'_>,
    write: &mut dyn FnMut(&[u8]) -> Result<(), WriteError>,
) -> Result<Digest, WriteError> {
    let source_error = |source| WriteError::Source { path: path.to_owned(), source };
    file.rewind().map_err(source_error)?;
    let mut hash = sha2::Sha256::new();
    let mut done_bytes = 0;
    let complete = read_chunks(file, source_error, |chunk| {
        hash.update(chunk);
        write(chunk)?;
        done_bytes += chunk.len() as u64;
        Ok(on_progress(Progress { stage, done_bytes, total_bytes }))
    })?;
    if !complete {
        return Err(WriteError::Cancelled);
    }
    if done_bytes != total_bytes {
        return Err(WriteError::SourceChanged(path.to_owned()));
    }
    Ok(Digest::of_hash(hash))
}
