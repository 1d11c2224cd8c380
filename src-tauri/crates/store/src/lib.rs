//! Model names, digests and manifests, and the libraries that store models on disk.
//!
//! A library has Ollama's layout, so that both programs can share it:
//!
//! ```text
//! blobs/sha256-<64 lower-case hex>             contents, named by their SHA-256
//! manifests/<host>/<namespace>/<model>/<tag>   the contents of a model, by digest
//! ```
//!
//! [`Library`] reads one library, [`LibraryWriter`] adds and removes blobs and models, and [`Libraries`] is the set of all
//! libraries of a user.
//!
//! Names and manifests are untrusted input. **Invariant:** no name that [`ModelRef`] accepts and no manifest leads to a path
//! outside the library.
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used)]

mod digest;
mod garbage_file;
mod hash;
mod libraries;
mod library;
mod manifest;
mod name;
mod references;
mod staging;
mod usage;
mod verify;
mod write;

pub use digest::{Digest, DigestError};
pub use garbage_file::{GarbageFile, GarbageKind};
pub use hash::hash_file;
pub use libraries::{Libraries, LibraryRole, LibrarySnapshot};
pub use library::{Library, LibraryError, LibraryState, Listing, SkippedEntry, StoredModel};
pub use manifest::{Config, Layer, LayerKind, MAX_LAYERS, Manifest};
pub use name::{ModelRef, NameError, NamePart};
pub use staging::{Ranges, StagedBlob, StagedBlobInfo, Staging, StagingError};
pub use usage::{DiskUsage, ModelDiskUsage};
pub use verify::BlobDefect;
pub use write::{
    BlobReceiver, CopiedModel, DeletedModel, GcOptions, GcReport, ImportMethod, ImportedBlob, LibraryWriter,
    PendingMove, Progress, PublishedModel, Stage, WriteError,
};
