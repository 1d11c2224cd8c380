//! Model names, digests and manifests, and the libraries that hold models on disk.
//!
//! A library has Ollama's layout, so that models pulled by either program serve both:
//!
//! ```text
//! blobs/sha256-<64 lower-case hex>             contents, named by their SHA-256
//! manifests/<host>/<namespace>/<model>/<tag>   which contents make up a model
//! ```
//!
//! [`Library`] reads one; [`LibraryWriter`] puts contents and models into it, and takes them out; [`Libraries`] are all that
//! a user has.
//!
//! Names and manifests come from other people. **Invariant:** no name that [`ModelRef`] accepts, and no manifest, leads
//! to a path outside the library.
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used)]

mod check;
mod digest;
mod libraries;
mod library;
mod manifest;
mod name;
mod references;
mod staging;
mod usage;
mod write;

pub use check::Flaw;
pub use digest::{Digest, DigestError};
pub use libraries::{Libraries, Role, Surveyed};
pub use library::{Library, LibraryError, Listing, Skipped, State, StoredModel};
pub use manifest::{Config, Layer, LayerKind, Manifest};
pub use name::{ModelRef, NameError, Part};
pub use staging::{Ranges, Staged, StagedBlob, Staging, StagingError};
pub use usage::{ModelUsage, Usage};
pub use write::{
    Brought, Collected, CopiedModel, Deleted, Departing, Garbage, Leftover, LeftoverKind, LibraryWriter, Progress,
    Published, Receiving, Stage, Way, WriteError, digest_of,
};
