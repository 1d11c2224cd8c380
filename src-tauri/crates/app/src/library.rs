//! Models on this machine, and the use cases that change them: import, create, copy, delete, scan, verify and garbage
//! collection.
//!
//! [`ModelLibrary`] is the handle. Names resolve in this order: the built-in model, files that a client opened,
//! libraries on disk (`catalog`).

mod blobs;
pub(crate) mod catalog;
mod check;
mod copy;
mod create;
mod delete;
mod error;
mod file_digests;
mod garbage;
mod handle;
pub(crate) mod head;
pub mod imatrix;
pub(crate) mod import;
#[cfg(test)]
pub(crate) mod installation;
mod libraries;
pub(crate) mod pebble;
mod runnable;
mod scan;
mod show;
mod summary;
pub(crate) mod template;
mod verify;

pub use blobs::Upload;
pub use cairn_runtime::LoadError;
pub use cairn_store::{
    BlobDefect, DiskUsage, GarbageFile, GarbageKind, GcReport, ImportMethod, LibraryRole, LibraryState, ModelDiskUsage,
    Progress, Stage,
};
pub use cairn_store::{LibraryError, ModelRef, NameError, WriteError, hash_file};
pub use catalog::{Opened, local_name};
pub use check::{Check, CheckEvent, Checked, DamagedBlob};
pub use copy::{Copied, CopyEvent};
pub(crate) use create::Steps;
pub use create::{Create, CreateStep};
pub use delete::Deleted;
pub use error::Error;
pub use handle::ModelLibrary;
pub use head::{Head, read as read_head};
pub use import::{Import, ImportEvent, ImportMode, Imported};
pub use libraries::{LibraryInfo, LibraryUsage};
pub(crate) use runnable::HeadCheck;
pub use scan::{Found, FoundStatus, Scan, ScanEvent, Scanned};
pub use show::{Shown, TensorRow};
pub use summary::{Details, Summary};
pub use verify::{DamagedTensor, Verified, verify};
