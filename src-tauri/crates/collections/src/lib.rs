//! Collections of documents in one SQLite file: their text in chunks, a full-text index, and vectors of an embedding model.
//!
//! The `schema` module documents the file. [`chunks`] divides a document. A search ranks chunks by their words (BM25) and by the
//! cosine of their vectors, and merges both lists by reciprocal rank (`fusion`). Vectors are compared exactly, one after the other:
//! for at most [`MAX_CHUNKS`] chunks this takes a fraction of a second, and no index can miss a neighbour.
//!
//! One process writes the file, through one connection. A second connection reads, so that reads do not wait for writes. Every
//! change is one transaction that is durable when the call returns. A document that was being read when the process ended is
//! marked as failed when the file is opened next.
//!
//! **Invariants:** a collection has vectors of one model only, and a search never compares them with those of another model.
//! This crate does not depend on models, engines or HTTP. Callers pass in ids, the time in milliseconds since 1970, and vectors of
//! length 1. All calls block.
#![forbid(unsafe_code)]

mod chunk;
mod collection;
mod connect;
mod document;
mod error;
mod fusion;
mod limits;
mod schema;
mod search;
mod stored_collection;
mod vector;

use std::path::Path;

use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};

pub use chunk::{Chunk, chunks};
pub use document::{DocumentState, NewDocument, NewText, StoredDocument};
pub use error::CollectionsError;
pub use limits::{MAX_CHUNKS, MAX_COLLECTIONS, MAX_DOCUMENTS, MAX_NAME_CHARS, MAX_TEXT_BYTES};
pub use search::QueryVector;
pub use stored_collection::StoredCollection;
pub use vector::PendingChunk;

/// All collections of one user.
#[derive(Debug)]
pub struct CollectionStore {
    /// Declared and dropped before `writer`: SQLite copies the log into the file and removes it only if the last connection can
    /// write.
    reader: Mutex<Connection>,
    writer: Mutex<Connection>,
}

impl CollectionStore {
    /// Opens or creates the file of a user's collections.
    ///
    /// # Errors
    /// If the file cannot be opened, or belongs to another program or a newer version. It is unchanged then.
    pub fn open(path: &Path) -> Result<Self, CollectionsError> {
        let mut writer = schema::open(path, schema::MIGRATIONS)?;
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        document::mark_interrupted(&transaction)?;
        transaction.commit()?;
        Ok(Self { reader: Mutex::new(connect::open_reader(path)?), writer: Mutex::new(writer) })
    }

    /// Runs a read-only operation in one transaction.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, CollectionsError>) -> Result<T, CollectionsError> {
        let mut reader = self.reader.lock();
        read(&*reader.transaction()?)
    }

    /// Runs a write operation in one transaction.
    fn write<T>(&self, write: impl FnOnce(&Connection) -> Result<T, CollectionsError>) -> Result<T, CollectionsError> {
        let mut writer = self.writer.lock();
        // A deferred transaction that reads first would fail instead of waiting while another process writes, such as a backup.
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let written = write(&transaction)?;
        transaction.commit()?;
        Ok(written)
    }
}

#[cfg(test)]
mod tests;
