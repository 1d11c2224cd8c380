//! Chats in one SQLite file: trees of messages, folders, pins, a trash, presets, and full-text search.
//!
//! The `schema` module documents the file. One process writes it, through one connection. A second connection reads, so that reads
//! do not wait for writes. Every change is one transaction that is durable when the call returns, so a killed process loses no
//! acknowledged change. Answers that were being computed are marked as interrupted when the file is opened next. A damaged file is
//! repaired (`repair`), and a deletion reaches every copy (`erase`).
//!
//! A chat, a message and the like are the types of `cairn-wire`, which `/app` sends as they are. Ids of messages are opaque texts
//! outside of this crate.
//!
//! **Invariants:** this crate does not depend on models, engines or HTTP, and does not interpret options. Callers pass in the ids of
//! chats and the time, in milliseconds since 1970. All calls block.
#![forbid(unsafe_code)]

mod backup;
mod branch;
mod chat;
mod connect;
mod erase;
mod error;
mod import;
mod message;
pub mod ollama;
mod preset;
mod repair;
mod schema;
mod search;
mod words;

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};

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
    /// `None` for a database in memory.
    path: Option<PathBuf>,
    /// `None` for a database in memory, which has only one connection. Declared and dropped before `writer`: SQLite copies the log
    /// into the file and removes it only if the last connection can write.
    reader: Option<Mutex<Connection>>,
    writer: Mutex<Connection>,
    interrupted: usize,
    /// The damage that an operation found. All operations fail until the file is repaired.
    damage: Mutex<Option<String>>,
    repaired: Mutex<Option<Repair>>,
    /// Held while backups and other copies of the file are written or removed. Locked before the connections.
    copies: Mutex<()>,
}

impl Chats {
    /// Opens or creates the file of a user's chats. A file of an older version is backed up and migrated. A damaged file is
    /// repaired; see [`Chats::last_repair`].
    ///
    /// # Errors
    /// If the file cannot be opened, or belongs to another program or a newer version. It is unchanged then.
    pub fn open(path: &Path, now_ms: i64) -> Result<Self, ChatsError> {
        repair::finish_interrupted(path)?;
        let mut opened = open_checked(path, now_ms);
        let mut repaired = None;
        if let Some(reason) = opened.as_ref().err().and_then(ChatsError::damage) {
            repaired = Some(repair::repair(path, &reason, now_ms)?);
            opened = open_checked(path, now_ms);
        }
        let (writer, reader, interrupted) = opened?;
        Ok(Self {
            path: Some(path.to_owned()),
            writer: Mutex::new(writer),
            reader: Some(Mutex::new(reader)),
            interrupted,
            damage: Mutex::default(),
            repaired: Mutex::new(repaired),
            copies: Mutex::default(),
        })
    }

    /// Creates an empty database in memory.
    ///
    /// # Errors
    /// If SQLite cannot create it.
    pub fn in_memory() -> Result<Self, ChatsError> {
        Ok(Self {
            path: None,
            writer: Mutex::new(schema::in_memory()?),
            reader: None,
            interrupted: 0,
            damage: Mutex::default(),
            repaired: Mutex::default(),
            copies: Mutex::default(),
        })
    }

    /// Returns the number of answers that were interrupted when the last process ended.
    #[must_use]
    pub fn interrupted(&self) -> usize {
        self.interrupted
    }

    /// Returns the last repair since the file was opened.
    #[must_use]
    pub fn last_repair(&self) -> Option<Repair> {
        self.repaired.lock().clone()
    }

    /// Repairs the file if an operation found damage. Returns the repair.
    ///
    /// # Errors
    /// If the file cannot be repaired. All operations fail then, and the next call tries again.
    pub fn repair_if_damaged(&self, now_ms: i64) -> Result<Option<Repair>, ChatsError> {
        let (Some(path), Some(reader)) = (&self.path, &self.reader) else { return Ok(None) };
        if self.damage.lock().is_none() {
            return Ok(None);
        }
        let _copies = self.copies.lock();
        let (mut writer, mut reader, mut damage) = (self.writer.lock(), reader.lock(), self.damage.lock());
        let Some(reason) = &*damage else { return Ok(None) };
        // Closes both connections.
        *writer = Connection::open_in_memory()?;
        *reader = Connection::open_in_memory()?;
        let repaired = repair::repair(path, reason, now_ms)?;
        let (new_writer, new_reader, _) = open_checked(path, now_ms)?;
        (*writer, *reader, *damage) = (new_writer, new_reader, None);
        *self.repaired.lock() = Some(repaired.clone());
        Ok(Some(repaired))
    }

    /// Writes a backup if there are chats and the last one is older than a day. Chats can be read and written meanwhile.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn back_up_if_due(&self, now_ms: i64) -> Result<(), ChatsError> {
        let Some(path) = &self.path else { return Ok(()) };
        let _copies = self.copies.lock();
        self.guard(|| backup::write_if_due(path, schema::MIGRATIONS.len(), now_ms))
    }

    /// Runs a read-only operation.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, ChatsError>) -> Result<T, ChatsError> {
        let reader = self.reader.as_ref().unwrap_or(&self.writer);
        let reader = reader.lock();
        self.guard(|| read(&reader))
    }

    /// Runs a write operation in one transaction.
    fn write<T>(&self, write: impl FnOnce(&Connection) -> Result<T, ChatsError>) -> Result<T, ChatsError> {
        self.with_writer(|writer| {
            // A deferred transaction that reads first would fail instead of waiting while another process writes, such as a backup.
            let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let written = write(&transaction)?;
            transaction.commit()?;
            Ok(written)
        })
    }

    /// Runs an operation on the write connection.
    fn with_writer<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T, ChatsError>) -> Result<T, ChatsError> {
        let mut writer = self.writer.lock();
        self.guard(|| work(&mut writer))
    }

    /// Runs an operation, unless damage was found before. Damage that it finds is repaired by [`Chats::repair_if_damaged`].
    fn guard<T>(&self, work: impl FnOnce() -> Result<T, ChatsError>) -> Result<T, ChatsError> {
        if let Some(damage) = &*self.damage.lock() {
            return Err(ChatsError::CheckFailed(damage.clone()));
        }
        work().inspect_err(|error| {
            if let Some(found) = error.damage().filter(|_| self.path.is_some()) {
                *self.damage.lock() = Some(found);
            }
        })
    }
}

/// Opens the write and the read connection of a file. Checks the file first if the last process did not close it. Marks interrupted answers and returns their
/// number.
fn open_checked(path: &Path, now_ms: i64) -> Result<(Connection, Connection, usize), ChatsError> {
    let is_unclean = repair::is_unclean(path);
    let mut writer = schema::open(path, schema::MIGRATIONS, now_ms)?;
    if is_unclean {
        repair::quick_check(&writer)?;
    }
    let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let interrupted = message::mark_interrupted(&transaction)?;
    transaction.commit()?;
    Ok((writer, connect::open_reader(path)?, interrupted))
}

#[cfg(test)]
mod tests;
