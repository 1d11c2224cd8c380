//! Where files lie.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::chunk::{ChunkId, Group};
use crate::format::VERSION_FOLDER;

/// How chunks' names end.
pub(super) const SUFFIX: &str = ".kvc";

/// The names below a root.
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

    /// The folder of this version of the format. Another version has its own.
    pub(super) fn version(&self) -> PathBuf {
        self.root.join(VERSION_FOLDER)
    }

    pub(super) fn drafts(&self) -> PathBuf {
        self.version().join("drafts")
    }

    pub(super) fn bad(&self) -> PathBuf {
        self.version().join("bad")
    }

    /// The place of a chunk. Half of a hash is enough to tell chunks apart; the header has all of it.
    pub(super) fn file(&self, id: &ChunkId) -> PathBuf {
        let group = match id.group {
            Group::Full => "full",
            Group::Window => "window",
        };
        let hash = hex(&id.hash.as_bytes()[..16]);
        let folder = self.version().join(hex(&id.fingerprint.as_bytes()[..8])).join(&hash[..2]);
        folder.join(format!("{hash}.{group}{SUFFIX}"))
    }

    /// Where a file goes that is damaged.
    pub(super) fn aside(&self, file: &Path) -> PathBuf {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".bad");
        self.bad().join(name)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String grows");
        text
    })
}
