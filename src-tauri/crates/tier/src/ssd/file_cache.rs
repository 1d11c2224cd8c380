//! Cache of what files contain, so that scans and counts read new files only.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::SsdTier;
use crate::tier::StoredChunk;

/// Cached state of files. Files never change, so an unchanged file is not read again. Scans run every half minute
/// while answers are computed, used space is counted before each write, and a folder has thousands of files.
pub(super) type FileCache = HashMap<PathBuf, (FileStamp, FileState)>;

/// Identity of a file's content, to detect replaced files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    len_bytes: u64,
    modified: Option<SystemTime>,
}

impl FileStamp {
    pub(super) fn of(found: &Metadata) -> Self {
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(found);
        #[cfg(not(unix))]
        let inode = 0;
        Self { inode, len_bytes: found.len(), modified: found.modified().ok() }
    }
}

/// Cached state of a file.
#[derive(Clone, Debug)]
pub(super) enum FileState {
    /// A valid chunk.
    Chunk(StoredChunk),
    /// A file of this installation that was not verified further.
    Own,
    /// A file of another installation.
    Foreign,
    /// A file that was damaged when it was loaded.
    Damaged,
}

pub(super) fn stamp(path: &Path) -> Option<FileStamp> {
    std::fs::metadata(path).ok().map(|found| FileStamp::of(&found))
}

/// Caches the state of a file until the file changes.
pub(super) fn cache_state(ssd: &SsdTier, path: &Path, stamp: Option<FileStamp>, state: FileState) {
    ssd.heads.lock().extend(stamp.map(|stamp| (path.to_owned(), (stamp, state))));
}

/// Returns the cached state of an unchanged file.
pub(super) fn cached_state<T>(
    ssd: &SsdTier,
    path: &Path,
    stamp: FileStamp,
    read: impl FnOnce(&FileState) -> T,
) -> Option<T> {
    ssd.heads.lock().get(path).filter(|(then, _)| *then == stamp).map(|(_, state)| read(state))
}
