//! Errors of disk operations.

use std::io;
use std::path::{Path, PathBuf};

/// Failed disk operation.
#[derive(Debug, thiserror::Error)]
#[error("could not {step} {}: {source}", path.display())]
pub struct DiskError {
    /// The step that failed.
    pub step: Step,
    /// The file or folder of that step.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub source: io::Error,
}

/// Steps that can fail, in the order in which a write takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Read a file.
    Read,
    /// Create a folder.
    CreateFolder,
    /// Create a temporary or partial file.
    CreateTemporary,
    /// Write bytes.
    Write,
    /// Flush bytes or a folder's entries to the disk.
    Sync,
    /// Rename a file to its final name.
    Rename,
    /// Query the free space of a file system.
    QueryFreeSpace,
    /// Share another file's extents.
    Reflink,
    /// Give a file a second name.
    Link,
    /// Remove a file.
    Remove,
    /// Set a file's times to now.
    Touch,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::CreateFolder => "create the folder",
            Self::CreateTemporary => "create",
            Self::Write => "write",
            Self::Sync => "flush to disk",
            Self::Rename => "rename a finished file to",
            Self::QueryFreeSpace => "query the free space at",
            Self::Reflink => "reflink a file to",
            Self::Link => "hard-link a file to",
            Self::Remove => "remove",
            Self::Touch => "set the time of",
        })
    }
}

/// Returns a converter for `map_err` that adds the step and the path to an I/O error.
pub(crate) fn disk_error(step: Step, path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_owned();
    move |source| DiskError { step, path, source }
}
