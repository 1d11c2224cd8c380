//! Moving a file into a library: it has its own name until the model is there, so that whatever happens on the way leaves
//! it where it was.
//!
//! On one file system the contents get a second name in the library, and the first one goes at the end: a rename that can
//! be given up in the middle. Where there are no second names, or on another file system, it is a copy, brought to the disk,
//! and the file goes after it.

use std::fs;
use std::path::Path;

use cairn_disk::Mode;

use super::bring::{Brought, Watch, Way};
use super::source::{ReadOnly, Source, different_devices, set_permissions};
use super::{LibraryWriter, WriteError};
use crate::{Digest, Layer, LayerKind};

/// A file whose contents are in a library and that has its own name still. Dropping it leaves the file as it was.
pub struct Departing {
    source: Source,
    /// It is the library's file as well: its access rights are.
    is_blob: bool,
    /// It could be written to before.
    made_read_only: bool,
}

impl LibraryWriter<'_> {
    /// Brings in the file at `path` so that it can go afterwards: [`Departing::leave`], once there is a model that has it.
    ///
    /// # Errors
    /// As [`LibraryWriter::bring`]; and when the file is a link, or write-protected, or its folder keeps it. Nothing has
    /// changed then.
    pub fn bring_to_move(&self, path: &Path, watch: &mut Watch<'_>) -> Result<(Brought, Departing), WriteError> {
        let source = self.movable(path)?;
        let there = fs::metadata(self.library.blobs());
        let there = there.map_err(|source| WriteError::Source { path: self.library.blobs(), source })?;
        let (digest, way) = match different_devices(&source.metadata, &there) {
            true => self.share_or_copy(&source, watch)?,
            false => self.link_to_move(&source, watch)?,
        };
        let layer = Layer { kind: LayerKind::Model, digest, size_bytes: source.size_bytes() };
        let is_blob = is_same(&source, &self.library.blob_path(&digest));
        let made_read_only = way == Way::Moved;
        Ok((Brought { layer, way }, Departing { source, is_blob, made_read_only }))
    }

    /// A file that is to go once a model has what `produce` made of it: one of several parts.
    ///
    /// # Errors
    /// When it is a link, or write-protected, or its folder keeps it.
    pub fn departing(&self, path: &Path) -> Result<Departing, WriteError> {
        let source = self.movable(path)?;
        Ok(Departing { source, is_blob: false, made_read_only: false })
    }

    /// The file, if it can go.
    fn movable(&self, path: &Path) -> Result<Source, WriteError> {
        let unread = |source| WriteError::Source { path: path.to_owned(), source };
        if fs::symlink_metadata(path).map_err(unread)?.is_symlink() {
            let target = path.canonicalize().map_err(unread)?;
            return Err(WriteError::MovedLink { path: path.to_owned(), target });
        }
        let source = Source::open(path.canonicalize().map_err(unread)?)?;
        if source.metadata.permissions().readonly() {
            return Err(WriteError::MovedProtected(source.path));
        }
        let folder = source.path.parent().unwrap_or_else(|| Path::new("/"));
        // Whoever may put a file into a folder may take one out of it; no other question has an answer on every system.
        match self.disk.draft(folder, Mode::Private) {
            Ok(_) => Ok(source),
            Err(error) => Err(WriteError::MovedFromClosed { folder: folder.to_owned(), source: error.source }),
        }
    }

    fn link_to_move(&self, source: &Source, watch: &mut Watch<'_>) -> Result<(Digest, Way), WriteError> {
        let digest = self.digest(source, watch)?;
        source.check()?;
        if self.sound(digest, source.size_bytes(), watch)? {
            return Ok((digest, Way::Present));
        }
        // What was written just now may be in memory only, and nothing else of it will be left. Windows brings nothing to
        // the disk that was opened for reading.
        #[cfg(unix)]
        source.file.sync_all().map_err(|error| WriteError::Source { path: source.path.clone(), source: error })?;
        // As for a hard link: first no more writes, then a look whether there were any, then the second name.
        let guard = ReadOnly::make(source)?;
        source.check()?;
        if self.disk.link(&source.path, &self.library.blob_path(&digest)).is_ok() {
            guard.stays();
            return Ok((digest, Way::Moved));
        }
        // A file system without second names, or a system that gives none to files of others.
        drop(guard);
        self.share_or_copy(source, watch)
    }
}

impl Departing {
    /// Takes the file's own name away, now that a model has its contents.
    ///
    /// # Errors
    /// [`WriteError::SourceChanged`] when it was written to since it was read, or has given way to another: it stays then,
    /// and so it does when the system refuses.
    pub fn leave(mut self, writer: &LibraryWriter<'_>, layer: &Layer) -> Result<(), WriteError> {
        self.source.check()?;
        if !is_same(&self.source, &self.source.path) {
            return Err(WriteError::SourceChanged(self.source.path.clone()));
        }
        self.give_back_rights();
        writer.disk.remove(&self.source.path)?;
        #[cfg(unix)]
        if self.is_blob {
            // What was somebody's is the library's now. Where that cannot be said of it, it is readable as it was before.
            let shared = std::os::unix::fs::PermissionsExt::from_mode(Mode::Shared.bits());
            let _ = fs::set_permissions(writer.library.blob_path(&layer.digest), shared);
        }
        #[cfg(not(unix))]
        let _ = (layer, self.is_blob);
        Ok(())
    }

    fn give_back_rights(&mut self) {
        if std::mem::take(&mut self.made_read_only) {
            // The error that led here is the one to report.
            let _ = set_permissions(&self.source, self.source.metadata.permissions());
        }
    }
}

impl Drop for Departing {
    fn drop(&mut self) {
        self.give_back_rights();
    }
}

/// Does the path lead to that very file?
#[cfg(unix)]
fn is_same(source: &Source, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: &fs::Metadata| (found.dev(), found.ino());
    fs::symlink_metadata(path).is_ok_and(|found| place(&found) == place(&source.metadata))
}

/// Without numbers of files, the path itself has to do.
#[cfg(not(unix))]
fn is_same(source: &Source, path: &Path) -> bool {
    source.path == path
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
