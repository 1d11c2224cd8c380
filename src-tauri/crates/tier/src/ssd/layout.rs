//! Paths of files.

use std::path::{Path, PathBuf};

use crate::chunk::{ChunkId, Group};
use crate::format::VERSION_FOLDER;

/// Suffix of chunk files.
pub(super) const SUFFIX: &str = ".kvc";

/// Paths below a root folder.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn owner_lock(&self) -> PathBuf {
        self.root.join("owner.lock")
    }

    /// Folder of this format version. Other versions use other folders.
    pub(super) fn version(&self) -> PathBuf {
        self.root.join(VERSION_FOLDER)
    }

    pub(super) fn drafts(&self) -> PathBuf {
        self.version().join("drafts")
    }

    pub(super) fn bad(&self) -> PathBuf {
        self.version().join("bad")
    }

    /// Path of a chunk. Half of the hash identifies the chunk; the header contains all of it.
    pub(super) fn file(&self, id: &ChunkId) -> PathBuf {
        let group = match id.group {
            Group::Full => "full",
            Group::Window => "window",
        };
        let hash = hex::encode(&id.hash.as_bytes()[..16]);
        let folder = self.version().join(hex::encode(&id.fingerprint.as_bytes()[..8])).join(&hash[..2]);
        folder.join(format!("{hash}.{group}{SUFFIX}"))
    }

    /// Path of a quarantined file.
    pub(super) fn aside(&self, file: &Path) -> PathBuf {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".bad");
        self.bad().join(name)
    }
}
