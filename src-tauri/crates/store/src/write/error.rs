//! Errors of writes to a library.

use std::io;
use std::path::PathBuf;

use cairn_disk::{DiskError, LockError};

use crate::{Digest, LibraryError, MAX_LAYERS};

/// Error of a write to a library.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Another model has the name.
    #[error("there is another model named {name}; give a different name, or --force to put this one in its place")]
    NameTaken {
        /// The name, spelled as on disk.
        name: String,
    },
    /// The source file cannot be read.
    #[error("could not read {}: {source}", path.display())]
    Source {
        /// The source file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The source file changed while it was read, so that its digest is unknown.
    #[error("{} was written to while it was read; try again once it is whole", .0.display())]
    SourceChanged(PathBuf),
    /// There is no space for a copy.
    #[error(
        "a copy needs {}, and {} has {} free{}",
        size(*.need_bytes),
        folder.display(),
        size(*.free_bytes),
        reserve(*.reserve_bytes)
    )]
    NoSpace {
        /// Size of the copy.
        need_bytes: u64,
        /// Free bytes of the disk.
        free_bytes: u64,
        /// Bytes that must stay free.
        reserve_bytes: u64,
        /// Folder of the copy.
        folder: PathBuf,
    },
    /// A text layer is longer than Cairn reads.
    #[error("a text of {} is too long for a model: {} at most ({kind})", size(*.size_bytes), size(*.max_bytes))]
    LongText {
        /// Media type of the layer.
        kind: String,
        /// Size of the text.
        size_bytes: u64,
        /// Maximum size.
        max_bytes: u64,
    },
    /// The model has more layers than a manifest may have.
    #[error("the model would have {layers} layers; the maximum is {MAX_LAYERS}")]
    TooManyLayers {
        /// Number of layers.
        layers: usize,
    },
    /// A hard link cannot span two file systems.
    #[error(
        "{} and the store {} are on two file systems, which no hard link can span; without --link the file is copied",
        path.display(),
        store.display()
    )]
    CrossDeviceLink {
        /// The source file.
        path: PathBuf,
        /// The folder of blobs.
        store: PathBuf,
    },
    /// The file could not be made read-only, which a hard link needs.
    #[error(
        "{} could not be made read-only ({source}), and a hard link to a file that can be written is not safe; without \
         --link the file is copied",
        path.display()
    )]
    SourceStaysWritable {
        /// The source file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The file to move is a symbolic link.
    #[error("{} is a link to {}; name that file to move it, or use --copy", path.display(), target.display())]
    MoveSymlink {
        /// The link.
        path: PathBuf,
        /// Target of the link.
        target: PathBuf,
    },
    /// The file to move is write-protected.
    #[error("{} is write-protected and cannot be moved; make it writable, or use --copy", .0.display())]
    MoveReadOnly(PathBuf),
    /// The folder of the file to move does not allow removals.
    #[error("cannot move files out of {} ({source}); use --copy", folder.display())]
    MoveFolderReadOnly {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A manifest cannot be read, so its references are unknown.
    #[error(
        "nothing was removed: cannot read the manifest {} ({reason}), so the files that it needs are unknown; remove it, or \
         pull its model again",
        path.display()
    )]
    UnreadableManifest {
        /// The manifest.
        path: PathBuf,
        /// Why the manifest cannot be read.
        reason: String,
    },
    /// A received blob has another digest than announced.
    #[error("digest mismatch, expected \"{expected}\", got \"{found}\"")]
    DigestMismatch {
        /// Digest that the client announced.
        expected: Digest,
        /// Digest of the bytes.
        found: Digest,
    },
    /// The progress callback cancelled the operation.
    #[error("interrupted")]
    Cancelled,
    /// The library cannot be read.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// Disk error.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The library's lock cannot be acquired.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// Formats a number of bytes.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000_000 => format!("{bytes} bytes"),
        10_000_000..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Formats the reserve.
fn reserve(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        bytes => format!(", of which {} stay free (CAIRN_DISK_RESERVE)", size(bytes)),
    }
}
