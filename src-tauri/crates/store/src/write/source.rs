//! The user's file that is imported, and detection of changes to it.

use std::fs::{self, File, Metadata};
use std::path::PathBuf;
use std::time::SystemTime;

use super::WriteError;

/// Open source file, with the length and time that it had when it was opened.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) metadata: Metadata,
    stamp: (u64, Option<SystemTime>),
}

impl Source {
    pub(super) fn open(path: PathBuf) -> Result<Self, WriteError> {
        let source_error = |source| WriteError::Source { path: path.clone(), source };
        let file = File::open(&path).map_err(source_error)?;
        let metadata = file.metadata().map_err(source_error)?;
        let stamp = stamp(&metadata);
        Ok(Self { path, file, metadata, stamp })
    }

    /// Returns the length that the file had when it was opened.
    pub(super) fn size_bytes(&self) -> u64 {
        self.stamp.0
    }

    /// Fails if the file has changed since it was opened.
    pub(super) fn check_unchanged(&self) -> Result<(), WriteError> {
        match self.file.metadata() {
            Ok(metadata) if stamp(&metadata) == self.stamp => Ok(()),
            _ => Err(WriteError::SourceChanged(self.path.clone())),
        }
    }
}

fn stamp(metadata: &Metadata) -> (u64, Option<SystemTime>) {
    (metadata.len(), metadata.modified().ok())
}

pub(super) fn set_permissions(source: &Source, permissions: fs::Permissions) -> Result<(), WriteError> {
    fs::set_permissions(&source.path, permissions)
        .map_err(|error| WriteError::SourceStaysWritable { path: source.path.clone(), source: error })
}

/// Guard of a file that was made read-only. Dropping it restores the permissions.
pub(super) struct ReadOnly<'a> {
    source: &'a Source,
    changed: bool,
}

impl<'a> ReadOnly<'a> {
    pub(super) fn make(source: &'a Source) -> Result<Self, WriteError> {
        let before = source.metadata.permissions();
        let changed = !before.readonly();
        if changed {
            let mut permissions = before;
            permissions.set_readonly(true);
            set_permissions(source, permissions)?;
        }
        Ok(Self { source, changed })
    }

    /// Leaves the file read-only. Returns whether it was writable before.
    pub(super) fn keep(mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

impl Drop for ReadOnly<'_> {
    fn drop(&mut self) {
        if self.changed {
            // The caller reports the error that led here.
            let _ = fs::set_permissions(&self.source.path, self.source.metadata.permissions());
        }
    }
}

#[cfg(unix)]
pub(super) fn different_devices(a: &Metadata, b: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    a.dev() != b.dev()
}

#[cfg(not(unix))]
pub(super) fn different_devices(_: &Metadata, _: &Metadata) -> bool {
    false
}
