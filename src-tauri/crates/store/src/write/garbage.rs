//! Files that nobody needs: contents that no manifest names, and what is left of downloads by other programs.
//!
//! The rules are Ollama's (its start does the same): nothing goes while a manifest cannot be read, because nobody knows
//! what it names; and nothing goes that is younger than an hour, because a program that shares the library may be about
//! to name it. Ours are stricter in one thing: downloads that broke off can be resumed, so they go only when asked for.
//! Our own are in `.cairn`, which nothing here touches.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{LibraryWriter, WriteError, freed_bytes};
use crate::references::References;
use crate::{Digest, Library};

/// Files are left alone for this long.
const AGE: Duration = Duration::from_secs(3600);

/// What is to be done about files that nobody needs.
#[derive(Debug, Clone, Copy)]
pub struct Garbage {
    /// The time.
    pub now: SystemTime,
    /// Only tell.
    pub dry_run: bool,
    /// Remove what is left of downloads too.
    pub partials: bool,
}

/// What was done, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// Files that were removed, or would be.
    pub removed: Vec<Leftover>,
    /// Files that nobody needs and that stay all the same: they are young, or they are left of a download.
    pub kept: Vec<Leftover>,
}

/// A file that nobody needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes of it on the disk. A file that has another name elsewhere counts nothing: its bytes stay.
    pub size_bytes: u64,
    /// What it is.
    pub kind: LeftoverKind,
    /// Whether somebody may be about to use it.
    pub young: bool,
}

/// Kinds of files that nobody needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftoverKind {
    /// Contents that no manifest names, or a manifest that was never finished.
    Unreferenced,
    /// A download that broke off, or what belongs to one, as Ollama leaves them.
    Partial,
}

impl LibraryWriter<'_> {
    /// Removes files that nobody needs, and empty folders among the manifests.
    ///
    /// # Errors
    /// [`WriteError::UnreadManifest`], or when the disk refuses; what was removed before that was nobody's.
    pub fn collect_garbage(&self, garbage: Garbage) -> Result<Collected, WriteError> {
        let _turn = self.turn()?;
        let references = References::of(self.library);
        if let Some(unread) = references.unread.first().or(references.damaged.first()) {
            return Err(WriteError::UnreadManifest { path: unread.path.clone(), reason: unread.reason.clone() });
        }
        let mut collected = Collected::default();
        for leftover in leftovers(self.library, &references, garbage.now)? {
            let digest = leftover.path.file_name().and_then(|name| name.to_str()?.parse().ok());
            if digest.is_some_and(|digest: Digest| self.kept.contains(&digest)) {
                continue;
            }
            if leftover.young || (leftover.kind == LeftoverKind::Partial && !garbage.partials) {
                collected.kept.push(leftover);
                continue;
            }
            if !garbage.dry_run {
                self.remove_file(&leftover.path)?;
            }
            collected.removed.push(leftover);
        }
        if !garbage.dry_run {
            remove_empty_folders(&self.library.manifests());
        }
        Ok(collected)
    }
}

/// Files among the contents that no manifest names, and manifests that were never finished, in the order of their names. Files that are neither contents nor left
/// of a download are somebody's, and are not among them.
pub(crate) fn leftovers(
    library: &Library,
    references: &References,
    now: SystemTime,
) -> Result<Vec<Leftover>, WriteError> {
    let unread = |source| WriteError::Source { path: library.blobs(), source };
    let mut leftovers = Vec::new();
    let entries = match fs::read_dir(library.blobs()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(leftovers),
        Err(error) => return Err(unread(error)),
    };
    for entry in entries {
        let entry = entry.map_err(unread)?;
        let (name, path) = (entry.file_name(), entry.path());
        let Some(kind) = name.to_str().and_then(|name| kind(name, references)) else { continue };
        // It may be gone already: Ollama renames and removes without asking for a turn.
        let Ok(found) = entry.metadata() else { continue };
        if found.is_file() {
            leftovers.push(leftover(path, &found, kind, now));
        }
    }
    for path in &references.drafts {
        if let Ok(found) = fs::metadata(path) {
            leftovers.push(leftover(path.clone(), &found, LeftoverKind::Unreferenced, now));
        }
    }
    leftovers.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(leftovers)
}

fn leftover(path: PathBuf, found: &fs::Metadata, kind: LeftoverKind, now: SystemTime) -> Leftover {
    let age = found.modified().ok().and_then(|modified| now.duration_since(modified).ok());
    let young = age.is_none_or(|age| age < AGE);
    Leftover { path, size_bytes: freed_bytes(found).min(on_disk(found)), kind, young }
}

/// What a file among the contents is, when nobody needs it.
fn kind(name: &str, references: &References) -> Option<LeftoverKind> {
    if let Ok(digest) = name.parse::<Digest>() {
        return (!references.names(&digest)).then_some(LeftoverKind::Unreferenced);
    }
    // `-partial`, `-partial-7` and `.tmp` after a digest, or a number in its place while a new layer is hashed.
    name.starts_with("sha256").then_some(LeftoverKind::Partial)
}

/// Bytes of a file's place on the disk, where it has holes fewer than its length.
pub(crate) fn on_disk(file: &fs::Metadata) -> u64 {
    #[cfg(unix)]
    {
        // POSIX leaves the unit to the system; all that Rust knows count in 512 bytes.
        file.len().min(std::os::unix::fs::MetadataExt::blocks(file).saturating_mul(512))
    }
    #[cfg(not(unix))]
    {
        file.len()
    }
}

/// Removes the folders in `folder` that hold nothing but empty folders; a folder that holds anything cannot be removed.
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
