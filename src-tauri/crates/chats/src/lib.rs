//! Chats in one SQLite file: trees of messages, folders, pins, a trash, presets, and full-text search.
//!
//! The `schema` module documents the file. `cairn-sqlite` opens and migrates it, writes backups, repairs a damaged file and erases
//! deleted chats from all copies. Every change is one transaction that is durable when the call returns, so a killed process loses no
//! acknowledged change. Answers that were being computed are marked as interrupted when the file is opened next.
//!
//! A chat, a message and the like are the types of `cairn-wire`, which `/app` sends as they are. Ids of messages are opaque texts
//! outside of this crate.
//!
//! **Invariants:** this crate does not depend on models, engines or HTTP, and does not interpret options. Callers pass in the ids of
//! chats and the time, in milliseconds since 1970. All calls block.
#![forbid(unsafe_code)]

mod branch;
mod chat;
mod error;
mod import;
mod message;
pub mod ollama;
mod preset;
mod repair;
mod schema;
mod search;
mod words;

use std::path::Path;

use cairn_sqlite::Database;
use rusqlite::Connection;

pub use cairn_wire::app::chats::{
    AnswerRequest, AttachedFile, CallDecision, Chat, ChatChange, ChatEvent, ChatFolder, ChatHit, ChatLine, ChatMessage,
    ChatPrefetched, ChatRow, ChatStatus, ChatSummary, ChatsImported, ChatsResponse, DeletedMessages, ExportedChat,
    LeftOutCause, MessageState, MessagesResponse, NewChatRequest, Preset, PromptReading, SendRequest, SkippedChat,
    Sources, StepCall, StepCallState, StepLine, StoredChat, ToolStep, ToolsLeftOut, Warmth, WeightsLoading,
};
pub use chat::{ChatFilter, ChatPage, TitleSource};
pub use error::ChatsError;
pub use import::{ImportedChat, TrashPolicy};
pub use message::AnswerProgress;
pub use repair::Repair;

/// All chats of one user.
#[derive(Debug)]
pub struct Chats {
    database: Database,
}

impl Chats {
    /// Opens or creates the file of a user's chats. A file of an older version is backed up and migrated. A damaged file is
    /// repaired; see [`Chats::last_repair`].
    ///
    /// # Errors
    /// If the file cannot be opened, or belongs to another program or a newer version. It is unchanged then.
    pub fn open(path: &Path, now_ms: i64) -> Result<Self, ChatsError> {
        Ok(Self { database: Database::open(path, &schema::FORMAT, now_ms)? })
    }

    /// Creates an empty database in memory.
    ///
    /// # Errors
    /// If SQLite cannot create it.
    pub fn in_memory() -> Result<Self, ChatsError> {
        Ok(Self { database: Database::in_memory(&schema::FORMAT)? })
    }

    /// Returns the number of answers that were interrupted when the last process ended.
    #[must_use]
    pub fn interrupted(&self) -> usize {
        self.database.unfinished()
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
    pub fn repair_if_damaged(&self, now_ms: i64) -> Result<Option<Repair>, ChatsError> {
        Ok(self.database.repair_if_damaged(now_ms)?.map(Repair::from))
    }

    /// Writes a backup if there are chats and the last one is older than a day. Chats can be read and written meanwhile.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn back_up_if_due(&self, now_ms: i64) -> Result<(), ChatsError> {
        Ok(self.database.back_up_if_due(now_ms)?)
    }

    /// Removes all copies of chats that were deleted forever from the files of the folder. Does nothing if there are none. Writes
    /// wait while the file is rewritten, so one call should serve many deletions.
    ///
    /// # Errors
    /// If a file cannot be written or removed, or another process reads the database. The chats are deleted nevertheless, and the next
    /// call repeats the erasure.
    pub fn erase_deleted(&self, now_ms: i64) -> Result<(), ChatsError> {
        Ok(self.database.erase_deleted(now_ms)?)
    }

    /// Runs a read-only operation.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, ChatsError>) -> Result<T, ChatsError> {
        self.database.read(read)
    }

    /// Runs a write operation in one transaction.
    fn write<T>(&self, write: impl FnOnce(&Connection) -> Result<T, ChatsError>) -> Result<T, ChatsError> {
        self.database.write(write)
    }

    /// Runs an operation on the write connection.
    #[cfg(test)]
    fn with_writer<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, ChatsError>) -> Result<T, ChatsError> {
        self.database.with_writer(work)
    }
}

#[cfg(test)]
mod tests;
