//! Collections: documents that the daemon stores, and searches in them by words and by meaning.
//!
//! `cairn-collections` stores the chunks and their vectors; this module connects it to the process that reads documents
//! (`adding`) and to embedding models (`embedding`, a background task). A search (`searching`) uses words only if there are no
//! vectors, or if the model cannot read the script of the query, and reports why. `handle` opens the database, repairs it if it is
//! damaged, and requests the erasure of deleted documents and backups, in the background.
//!
//! **Invariants:** a document is found by its words as soon as it is stored, whether or not a model is installed. Vectors are
//! computed with batch priority, so that no chat waits for them; after a restart, the missing ones are computed. Contents and
//! queries are never logged.

mod adding;
mod embedding;
mod error;
mod handle;
mod manage;
mod searching;
mod status;

pub use cairn_collections::{CollectionsError, FileError, MAX_NAME_CHARS};
pub use error::{DescribeError, Error};
pub use handle::Collections;
pub use searching::MAX_HITS;

#[cfg(all(test, unix))]
mod tests;
