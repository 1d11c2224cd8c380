//! Collections of documents in one SQLite file: their text in chunks, a full-text index, and vectors of an embedding model.
//!
//! The `schema` module documents the file. [`chunks`] divides a document. A search ranks chunks by their words (BM25) and by the
//! cosine of their vectors, and merges both lists by reciprocal rank (`fusion`). Vectors are compared exactly, one after the other:
//! for at most [`MAX_CHUNKS`] chunks this takes a fraction of a second, and no index can miss a neighbour.
//!
//! Every change is one transaction that is durable when the call returns. A document that was being read when the process ended is
//! marked as failed when the file is opened next. `cairn-sqlite` opens and migrates the file, writes backups (without vectors, see
//! `schema`), repairs a damaged file (`repair`) and erases deleted documents from all copies.
//!
//! **Invariants:** a collection has vectors of one model only, and a search never compares them with those of another model.
//! This crate does not depend on models, engines or HTTP. Callers pass in ids, the time in milliseconds since 1970, and vectors of
//! length 1. All calls block.
#![forbid(unsafe_code)]

mod chunk;
mod collection;
mod document;
mod error;
mod fusion;
mod limits;
mod repair;
mod schema;
mod search;
mod stored_collection;
mod vector;

use std::path::Path;

use cairn_sqlite::Database;
use rusqlite::Connection;

pub use cairn_sqlite::FileError;
pub use chunk::{Chunk, chunks};
pub use document::{DocumentState, NewDocument, NewText, StoredDocument};
pub use error::CollectionsError;
pub use limits::{MAX_CHUNKS, MAX_COLLECTIONS, MAX_DOCUMENTS, MAX_NAME_CHARS, MAX_TEXT_BYTES};
pub use repair::Repair;
pub use search::QueryVector;
pub use stored_collection::StoredCollection;
pub use vector::PendingChunk;

/// All collections of one user.
#[derive(Debug)]
pub struct CollectionStore {
    database: Database,
}

impl CollectionStore {
    /// Opens or creates the file of a user's collections. A file of an older version is backed up and migrated. A damaged file is
    /// repaired; see [`CollectionStore::last_repair`].
    ///
    /// # Errors
    /// If the file cannot be opened, or belongs to another program or a newer version. It is unchanged then.
    pub fn open(path: &Path, now_ms: i64) -> Result<Self, CollectionsError> {
        Ok(Self { database: Database::open(path, &schema::FORMAT, now_ms)? })
    }

    /// Returns the last repair since the file was opened.
    #[must_use]
    pub fn last_repair(&self) -> Option<Repair> {
        self.database.last_repair().map(Repair::from)
    }

    /// Repairs the file if an operation found damage. Returns the repair.
    ///
    /// # Errors
    /// If the file cannot be repaired. All operations fail then, and the next call tries again.
    pub fn repair_if_damaged(&self, now_ms: i64) -> Result<Option<Repair>, CollectionsError> {
        Ok(self.database.repair_if_damaged(now_ms)?.map(Repair::from))
    }

    /// Writes a backup without vectors, if there are collections and the last one is older than a day. Collections can be read and
    /// written meanwhile.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn back_up_if_due(&self, now_ms: i64) -> Result<(), CollectionsError> {
        Ok(self.database.back_up_if_due(now_ms)?)
    }

    /// Removes all copies of deleted collections and documents from the files of the folder. Does nothing if there are none. Writes
    /// wait while the file is rewritten, so one call should serve many deletions.
    ///
    /// # Errors
    /// If a file cannot be written or removed, or another process reads the database. The documents are deleted nevertheless, and the
    /// next call repeats the erasure.
    pub fn erase_deleted(&self, now_ms: i64) -> Result<(), CollectionsError> {
        Ok(self.database.erase_deleted(now_ms)?)
    }

    /// Runs a read-only operation in one transaction.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, CollectionsError>) -> Result<T, CollectionsError> {
        self.database.read(|reader| read(&*reader.unchecked_transaction()?))
    }

    /// Runs a write operation in one transaction.
    fn write<T>(&self, write: impl FnOnce(&Connection) -> Result<T, CollectionsError>) -> Result<T, CollectionsError> {
        self.database.write(write)
    }
}

#[cfg(test)]
mod tests;
