//! Moves of files into a library. The file keeps its own name until the model is saved, so that a failure leaves it where it was.
//!
//! On one file system the contents get a second name in the library, and the first name is removed at the end: a rename that can be
//! cancelled half-way. Without hard links, or on another file system, the file is copied and synced, and removed afterwards.

use std::fs;
use std::path::Path;

use cairn_disk::Mode;

use super::import_file::{ImportMethod, ImportedBlob, ProgressCallback};
use super::source::{ReadOnly, Source, different_devices, set_permissions};
use super::{LibraryWriter, WriteError};
use crate::{Digest, Layer, LayerKind};

/// Source file of a move into the library: its contents are imported, but the file still exists under its original
/// path. Dropping this value restores the file's permissions.
pub struct PendingMove {
    source: Source,
    /// The file is also the library's blob, so both have the same permissions.
    is_blob: bool,
    /// The file was writable before.
    made_read_only: bool,
}

impl LibraryWriter<'_> {
    /// Imports the file at `path` so that it can be removed by [`PendingMove::finish`] once a model has the contents.
    ///
    /// # Errors
    /// As [`LibraryWriter::import_file`]; and if the file is a link or write-protected, or its folder does not allow removals.
    /// Nothing has changed then.
    pub fn import_for_move(
        &self,
        path: &Path,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<(ImportedBlob, PendingMove), WriteError> {
        let source = self.open_movable(path)?;
        let metadata = fs::metadata(self.library.blobs());
        let metadata = metadata.map_err(|source| WriteError::Source { path: self.library.blobs(), source })?;
        let (digest, method) = match different_devices(&source.metadata, &metadata) {
            true => self.reflink_or_copy(&source, on_progress)?,
            false => self.link_to_move(&source, on_progress)?,
        };
        let layer = Layer { kind: LayerKind::Model, digest, size_bytes: source.size_bytes() };
        let is_blob = is_same_file(&source, &self.library.blob_path(&digest));
        let made_read_only = method == ImportMethod::Moved;
        Ok((ImportedBlob { layer, method }, PendingMove { source, is_blob, made_read_only }))
    }

    /// Opens a file that will be removed once a model has contents that were generated from it, such as one of several parts.
    ///
    /// # Errors
    /// If the file is a link or write-protected, or its folder does not allow removals.
    pub fn prepare_move(&self, path: &Path) -> Result<PendingMove, WriteError> {
        let source = self.open_movable(path)?;
        Ok(PendingMove { source, is_blob: false, made_read_only: false })
    }

    /// Opens a file and checks that it can be removed.
    fn open_movable(&self, path: &Path) -> Result<Source, WriteError> {
        let source_error = |source| WriteError::Source { path: path.to_owned(), source };
        if fs::symlink_metadata(path).map_err(source_error)?.is_symlink() {
            let target = path.canonicalize().map_err(source_error)?;
            return Err(WriteError::MoveSymlink { path: path.to_owned(), target });
        }
        let source = Source::open(path.canonicalize().map_err(source_error)?)?;
        if source.metadata.permissions().readonly() {
            return Err(WriteError::MoveReadOnly(source.path));
        }
        let folder = source.path.parent().unwrap_or_else(|| Path::new("/"));
        // A user who can create a file in a folder can remove one. This is the only portable test.
        match self.disk.create_temp_file(folder, Mode::Private) {
            Ok(_) => Ok(source),
            Err(error) => Err(WriteError::MoveFolderReadOnly { folder: folder.to_owned(), source: error.source }),
        }
    }

    fn link_to_move(
        &self,
        source: &Source,
        on_progress: &mut ProgressCallback<'_>,
    ) -> Result<(Digest, ImportMethod), WriteError> {
        let digest = self.digest(source, on_progress)?;
        source.check_unchanged()?;
        if self.has_valid_blob(digest, source.size_bytes(), on_progress)? {
            return Ok((digest, ImportMethod::Present));
        }
        // Recent writes may only be in memory, and this will be the only copy. Windows cannot sync a file that is open for
        // reading.
        #[cfg(unix)]
        source.file.sync_all().map_err(|error| WriteError::Source { path: source.path.clone(), source: error })?;
        // The order matters, as for a hard link: forbid writes, check that there were none, then link.
        let guard = ReadOnly::make(source)?;
        source.check_unchanged()?;
        if self.disk.link(&source.path, &self.library.blob_path(&digest)).is_ok() {
            guard.keep();
            return Ok((digest, ImportMethod::Moved));
        }
        // The file system has no hard links, or the system forbids links to other users' files.
        drop(guard);
        self.reflink_or_copy(source, on_progress)
    }
}

impl PendingMove {
    /// Removes the source file from its original path. Call it after a model with the contents was saved.
    ///
    /// # Errors
    /// [`WriteError::SourceChanged`] if the file was written to or replaced since it was read. The file then stays, as it does
    /// on disk errors.
    pub fn finish(mut self, writer: &LibraryWriter<'_>, layer: &Layer) -> Result<(), WriteError> {
        self.source.check_unchanged()?;
        if !is_same_file(&self.source, &self.source.path) {
            return Err(WriteError::SourceChanged(self.source.path.clone()));
        }
        self.restore_permissions();
        writer.disk.remove(&self.source.path)?;
        #[cfg(unix)]
        if self.is_blob {
            // The user's file is a blob now and gets a blob's mode. On failure it keeps its own mode.
            let shared = std::os::unix::fs::PermissionsExt::from_mode(Mode::Shared.bits());
            let _ = fs::set_permissions(writer.library.blob_path(&layer.digest), shared);
        }
        #[cfg(not(unix))]
        let _ = (layer, self.is_blob);
        Ok(())
    }

    fn restore_permissions(&mut self) {
        if std::mem::take(&mut self.made_read_only) {
            // The caller reports the error that led here.
            let _ = set_permissions(&self.source, self.source.metadata.permissions());
        }
    }
}

impl Drop for PendingMove {
    fn drop(&mut self) {
        self.restore_permissions();
    }
}

/// Returns whether the path refers to the same inode.
#[cfg(unix)]
fn is_same_file(source: &Source, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    fs::symlink_metadata(path).is_ok_and(|metadata| identity(&metadata) == identity(&source.metadata))
}

/// Compares only the paths, because there are no inode numbers.
#[cfg(not(unix))]
fn is_same_file(source: &Source, path: &Path) -> bool {
    source.path == path
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
