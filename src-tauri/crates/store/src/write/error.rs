//! Why something was not written to a library.

use std::io;
use std::path::PathBuf;

use cairn_disk::{DiskError, LockError};

use crate::{Digest, LibraryError};

/// Why something was not written to a library.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is a model of that name, and it is another one.
    #[error("there is another model named {name}; give a different name, or --force to put this one in its place")]
    NameTaken {
        /// The name, as it is spelled there.
        name: String,
    },
    /// The file to bring in cannot be read.
    #[error("could not read {}: {source}", path.display())]
    Source {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file changed while it was read, so that its digest is that of neither.
    #[error("{} was written to while it was read; try again once it is whole", .0.display())]
    SourceChanged(PathBuf),
    /// There is no room for a copy.
    #[error(
        "a copy needs {}, and {} has {} free{}",
        size(*.need_bytes),
        folder.display(),
        size(*.free_bytes),
        reserve(*.reserve_bytes)
    )]
    NoSpace {
        /// Bytes of the file.
        need_bytes: u64,
        /// Bytes that are free.
        free_bytes: u64,
        /// Bytes that are to stay free.
        reserve_bytes: u64,
        /// Where.
        folder: PathBuf,
    },
    /// A text is longer than any that is read again.
    #[error("a text of {} is too long for a model: {} at most ({kind})", size(*.size_bytes), size(*.most_bytes))]
    LongText {
        /// What it is for.
        kind: String,
        /// Bytes of it.
        size_bytes: u64,
        /// Bytes that are read at most.
        most_bytes: u64,
    },
    /// A hard link cannot lead from one file system to another.
    #[error(
        "{} and the store {} are on two file systems, which no hard link can span; without --link the file is copied",
        path.display(),
        store.display()
    )]
    TwoFileSystems {
        /// The file.
        path: PathBuf,
        /// The folder of contents.
        store: PathBuf,
    },
    /// The file could not be made read-only, which a hard link needs.
    #[error(
        "{} could not be made read-only ({source}), and a hard link to a file that can be written is not safe; without \
         --link the file is copied",
        path.display()
    )]
    StaysWritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A link is no file, and what it leads to is somebody's.
    #[error("{} is a link to {}; name that file to move it, or use --copy", path.display(), target.display())]
    MovedLink {
        /// The link.
        path: PathBuf,
        /// Where it leads to.
        target: PathBuf,
    },
    /// Somebody protected the file.
    #[error("{} is write-protected, so it is not taken away; take the protection off, or use --copy", .0.display())]
    MovedProtected(PathBuf),
    /// The folder lets nobody take a file out of it.
    #[error("nothing can be taken out of {} ({source}); use --copy", folder.display())]
    MovedFromClosed {
        /// The folder of the file.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A manifest cannot be read, so nobody knows which contents are in use.
    #[error(
        "nothing was removed: {} is no readable manifest ({reason}), so nobody knows which files it needs; remove it, or \
         pull its model again",
        path.display()
    )]
    UnreadManifest {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Contents that were sent are not what they were said to be.
    #[error("digest mismatch, expected \"{named}\", got \"{found}\"")]
    OtherContents {
        /// The digest that they were sent under.
        named: Digest,
        /// The digest that they have.
        found: Digest,
    },
    /// Whoever asked for it has gone.
    #[error("interrupted")]
    Cancelled,
    /// What is there cannot be read.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// No turn at writing.
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000_000 => format!("{bytes} bytes"),
        10_000_000..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// What stays free, for people.
fn reserve(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        bytes => format!(", of which {} stay free (CAIRN_DISK_RESERVE)", size(bytes)),
    }
}
