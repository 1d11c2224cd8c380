//! Chats in one SQLite file: a tree of messages each, folders, pins, a trash, presets, and a search over all of them.
//!
//! `schema` draws the file. One process writes it, through one connection; another connection reads, so that a list does not wait
//! for a search nor either for a write. Every change is one transaction that is on the disk before it returns, so a process that
//! is killed loses nothing of what it has said was kept. What was being computed then is marked when the file is next opened.
//!
//! **Invariants:** nothing here knows models, engines or HTTP: options, costs and the like are JSON that means nothing. The clock and
//! ids are passed in. Times are milliseconds since 1970. All calls block.
#![forbid(unsafe_code)]

mod bring;
mod chat;
mod error;
mod message;
pub mod ollama;
mod preset;
mod schema;
mod search;
mod words;

use std::path::Path as FilePath;
use std::sync::Mutex;

use rusqlite::{Connection, TransactionBehavior};

pub use bring::{Arrived, Brought, BroughtMessage, Trashed};
pub use chat::{Change, Chat, Listed, NewChat, Page, Titled, Which};
pub use error::ChatsError;
pub use message::{File, Message, MessageId, Path, Progress, Said, State};
pub use preset::Preset;
pub use search::Hit;
pub use words::Snippet;

/// All chats of one user.
#[derive(Debug)]
pub struct Chats {
    writer: Mutex<Connection>,
    /// None where the chats are only in memory, which has one connection.
    reader: Option<Mutex<Connection>>,
    cut: usize,
}

impl Chats {
    /// Opens the file of a user's chats, or makes it; brings one of an older version to this version, after a copy of it.
    ///
    /// # Errors
    /// Where it cannot be opened, or is another program's or a newer version's; then it is left as it is.
    pub fn open(path: &FilePath, now_ms: i64) -> Result<Self, ChatsError> {
        let mut writer = schema::open(path, schema::STEPS, now_ms)?;
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let cut = message::cut(&transaction)?;
        transaction.commit()?;
        let reader = Some(Mutex::new(schema::open_reader(path)?));
        Ok(Self { writer: Mutex::new(writer), reader, cut })
    }

    /// Chats that are only in memory, and gone with this.
    ///
    /// # Errors
    /// Where there is no memory.
    pub fn in_memory() -> Result<Self, ChatsError> {
        Ok(Self { writer: Mutex::new(schema::in_memory()?), reader: None, cut: 0 })
    }

    /// How many answers were being computed when the last process ended.
    #[must_use]
    pub fn cut(&self) -> usize {
        self.cut
    }

    /// Runs what only reads.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, ChatsError>) -> Result<T, ChatsError> {
        let reader = self.reader.as_ref().unwrap_or(&self.writer);
        // Whoever panicked was in the middle of reading, or of a transaction that was rolled back.
        read(&reader.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Runs what writes, all of it or nothing.
    fn write<T>(&self, write: impl FnOnce(&Connection) -> Result<T, ChatsError>) -> Result<T, ChatsError> {
        let mut writer = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // One that reads first would not wait for another process that writes, a backup program for instance, but fail.
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let written = write(&transaction)?;
        transaction.commit()?;
        Ok(written)
    }
}

#[cfg(test)]
mod tests;
