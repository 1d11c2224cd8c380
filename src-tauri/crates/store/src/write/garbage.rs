//! Garbage collection: blobs that no manifest references, and remains of other programs' downloads.
//!
//! The rules are those of Ollama's start-up. Nothing is removed while a manifest cannot be read, because its references are
//! unknown. Nothing younger than an hour is removed, because a program that shares the library may be about to reference it.
//! Unlike Ollama, interrupted downloads are removed only on request, because they can be resumed. Cairn's own downloads are in
//! `.cairn`, which this module never touches.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{LibraryWriter, WriteError, freed_bytes};
use crate::garbage_file::{GarbageFile, GarbageKind, on_disk};
use crate::references::References;
use crate::{Digest, Library};

/// Minimum age of removed files.
const MIN_AGE: Duration = Duration::from_secs(3600);

/// Options of a garbage collection.
#[derive(Debug, Clone, Copy)]
pub struct GcOptions {
    /// Current time.
    pub now: SystemTime,
    /// Report only, remove nothing.
    pub dry_run: bool,
    /// Remove interrupted downloads too.
    pub partials: bool,
}

/// Result of a garbage collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Files that were removed, or would be without `dry_run`.
    pub removed: Vec<GarbageFile>,
    /// Garbage that stays, because it is recent or an interrupted download.
    pub kept: Vec<GarbageFile>,
}

impl LibraryWriter<'_> {
    /// Removes garbage files and empty folders of manifests.
    ///
    /// # Errors
    /// [`WriteError::UnreadableManifest`] or a disk error. Files that were removed before the error were garbage.
    pub fn collect_garbage(&self, options: GcOptions) -> Result<GcReport, WriteError> {
        let _lock = self.lock()?;
        let references = References::of(self.library);
        if let Some(unreadable) = references.unreadable.first().or(references.damaged.first()) {
            return Err(WriteError::UnreadableManifest {
                path: unreadable.path.clone(),
                reason: unreadable.reason.clone(),
            });
        }
        let mut report = GcReport::default();
        for file in garbage_files(self.library, &references, options.now)? {
            let digest = file.path.file_name().and_then(|name| name.to_str()?.parse().ok());
            if digest.is_some_and(|digest: Digest| self.pinned.contains(&digest)) {
                continue;
            }
            if file.is_recent || (file.kind == GarbageKind::Partial && !options.partials) {
                report.kept.push(file);
                continue;
            }
            if !options.dry_run {
                self.remove_file(&file.path)?;
            }
            report.removed.push(file);
        }
        if !options.dry_run {
            remove_empty_folders(&self.library.manifests());
        }
        Ok(report)
    }
}

/// Returns the unreferenced blobs, parts of downloads and unfinished manifests, sorted by path. Other files among the blobs are not
/// garbage.
pub(crate) fn garbage_files(
    library: &Library,
    references: &References,
    now: SystemTime,
) -> Result<Vec<GarbageFile>, WriteError> {
    let source_error = |source| WriteError::Source { path: library.blobs(), source };
    let mut files = Vec::new();
    let entries = match fs::read_dir(library.blobs()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(files),
        Err(error) => return Err(source_error(error)),
    };
    for entry in entries {
        let entry = entry.map_err(source_error)?;
        let (name, path) = (entry.file_name(), entry.path());
        let Some(kind) = name.to_str().and_then(|name| kind(name, references)) else { continue };
        // The file may be gone already: Ollama renames and removes files without the lock.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() {
            files.push(garbage_file(path, &metadata, kind, now));
        }
    }
    for path in &references.temp_files {
        if let Ok(metadata) = fs::metadata(path) {
            files.push(garbage_file(path.clone(), &metadata, GarbageKind::Unreferenced, now));
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn garbage_file(path: PathBuf, metadata: &fs::Metadata, kind: GarbageKind, now: SystemTime) -> GarbageFile {
    let age = metadata.modified().ok().and_then(|modified| now.duration_since(modified).ok());
    let is_recent = age.is_none_or(|age| age < MIN_AGE);
    GarbageFile { path, size_bytes: freed_bytes(metadata).min(on_disk(metadata)), kind, is_recent }
}

/// Returns the kind of a file among the blobs if it is garbage.
fn kind(name: &str, references: &References) -> Option<GarbageKind> {
    if let Ok(digest) = name.parse::<Digest>() {
        return (!references.contains(&digest)).then_some(GarbageKind::Unreferenced);
    }
    // A digest with `-partial`, `-partial-7` or `.tmp`, or a number instead of the digest while Ollama hashes a new layer.
    name.starts_with("sha256").then_some(GarbageKind::Partial)
}

/// Removes all empty folders below `folder`. The removal of a folder that is not empty fails.
fn remove_empty_folders(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty_folders(&entry.path());
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
