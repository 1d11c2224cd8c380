//! A file of somebody's that is read, and may be made read-only or go: what tells whether it is still the same.

use std::fs::{self, File, Metadata};
use std::path::PathBuf;
use std::time::SystemTime;

use super::WriteError;

/// A file that is read, and what tells whether it changed meanwhile.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) metadata: Metadata,
    stamp: (u64, Option<SystemTime>),
}

impl Source {
    pub(super) fn open(path: PathBuf) -> Result<Self, WriteError> {
        let unread = |source| WriteError::Source { path: path.clone(), source };
        let file = File::open(&path).map_err(unread)?;
        let metadata = file.metadata().map_err(unread)?;
        let stamp = stamp(&metadata);
        Ok(Self { path, file, metadata, stamp })
    }

    /// Its length when it was opened.
    pub(super) fn size_bytes(&self) -> u64 {
        self.stamp.0
    }

    /// Fails when it has changed since it was opened.
    pub(super) fn check(&self) -> Result<(), WriteError> {
        match self.file.metadata() {
            Ok(now) if stamp(&now) == self.stamp => Ok(()),
            _ => Err(WriteError::SourceChanged(self.path.clone())),
        }
    }
}

fn stamp(metadata: &Metadata) -> (u64, Option<SystemTime>) {
    (metadata.len(), metadata.modified().ok())
}

pub(super) fn set_permissions(source: &Source, permissions: fs::Permissions) -> Result<(), WriteError> {
    fs::set_permissions(&source.path, permissions)
        .map_err(|error| WriteError::StaysWritable { path: source.path.clone(), source: error })
}

/// A file that was made read-only, and becomes what it was unless it is to stay so.
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

    /// Leaves the file read-only, and says whether it was not so before.
    pub(super) fn stays(mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

impl Drop for ReadOnly<'_> {
    fn drop(&mut self) {
        if self.changed {
            // The error that led here is the one to report.
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
