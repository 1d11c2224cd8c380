//! Files that can be removed: blobs that no manifest references, and parts of interrupted downloads.

use std::fs;
use std::path::PathBuf;

/// Garbage file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GarbageFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Bytes that removing it frees: 0 if the file has another hard link.
    pub size_bytes: u64,
    /// Kind of garbage.
    pub kind: GarbageKind,
    /// Less than an hour old: another program may be about to reference it.
    pub is_recent: bool,
}

/// Kind of a garbage file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GarbageKind {
    /// Blob that no manifest references, or an unfinished manifest.
    Unreferenced,
    /// Part of an interrupted download.
    Partial,
}

/// Returns the allocated bytes of a file, but at most its length: fewer if it has holes.
pub(crate) fn on_disk(file: &fs::Metadata) -> u64 {
    #[cfg(unix)]
    {
        // POSIX leaves the unit of blocks open. It is 512 bytes on all systems that Rust supports.
        file.len().min(std::os::unix::fs::MetadataExt::blocks(file).saturating_mul(512))
    }
    #[cfg(not(unix))]
    {
        file.len()
    }
}
