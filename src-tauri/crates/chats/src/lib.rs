//! Chats in one SQLite file: trees of messages, folders, pins, a trash, presets, and full-text search.
//!
//! The `schema` module documents the file. One process writes it, through one connection. A second connection reads, so that reads
//! do not wait for writes. Every change is one transaction that is durable when the call returns, so a killed process loses no
//! acknowledged change. Answers that were being computed are marked as interrupted when the file is opened next.
//!
//! A chat, a message and the like are the types of `cairn-wire`, which `/app` sends as they are. Ids of messages are opaque texts
//! outside of this crate.
//!
//! **Invariants:** this crate does not depend on models, engines or HTTP, and does not interpret options. Callers pass in the ids of
//! chats and the time, in milliseconds since 1970. All calls block.
#![forbid(unsafe_code)]

mod backup;
mod chat;
mod erase;
mod error;
mod import;
mod message;
pub mod ollama;
mod preset;
mod recovery;
mod schema;
mod search;
mod words;

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};

pub use cairn_wire::app::chats::{
    AnswerRequest, AttachedFile, Chat, ChatChange, ChatEvent, ChatFolder, ChatHit, ChatLine, ChatMessage,
    ChatPrefetched, ChatRow, ChatStatus, ChatSummary, ChatsImported, ChatsRecovery, ChatsResponse, ExportedChat,
    MessageState, MessagesResponse, NewChatRequest, Preset, SendRequest, SkippedChat, StoredChat, Warmth,
};
pub use chat::{ChatFilter, ChatPage, TitleSource};
pub use error::ChatsError;
pub use import::{ImportedChat, TrashPolicy};
pub use message::AnswerProgress;
pub use recovery::Recovery;

/// All chats of one user.
#[derive(Debug)]
pub struct Chats {
    writer: Mutex<Connection>,
    /// `None` for a database in memory, which has only one connection.
    reader: Option<Mutex<Connection>>,
    /// `None` for a database in memory.
    path: Option<PathBuf>,
    interrupted: usize,
    recovery: Option<Recovery>,
}

impl Chats {
    /// Opens or creates the file of a user's chats. A file of an older version is backed up and migrated. A damaged file is set
    /// aside and replaced by the newest backup, see [`Chats::recovery`].
    ///
    /// # Errors
    /// If the file cannot be opened, or belongs to another program or a newer version. It is unchanged then.
    pub fn open(path: &Path, now_ms: i64) -> Result<Self, ChatsError> {
        match Self::open_valid(path, now_ms) {
            Err(error) if recovery::is_damage(&error) => {
                let recovery = recovery::recover(path, now_ms)?;
                let set_aside = recovery.set_aside.display();
                tracing::error!(%error, %set_aside, backup_ms = recovery.backup_ms, "the chats were damaged and replaced");
                Ok(Self { recovery: Some(recovery), ..Self::open_valid(path, now_ms)? })
            }
            opened => opened,
        }
    }

    fn open_valid(path: &Path, now_ms: i64) -> Result<Self, ChatsError> {
        // The last process did not end in order.
        let log = PathBuf::from(format!("{}-wal", path.display()));
        let was_killed = log.metadata().is_ok_and(|log| log.len() > 0);
        let mut writer = schema::open(path, schema::MIGRATIONS, now_ms)?;
        if was_killed {
            recovery::check(&writer)?;
        }
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let interrupted = message::mark_interrupted(&transaction)?;
        transaction.commit()?;
        let reader = Some(Mutex::new(schema::open_reader(path)?));
        let writer = Mutex::new(writer);
        let chats = Self { writer, reader, path: Some(path.to_owned()), interrupted, recovery: None };
        // The last process may have been killed after a deletion.
        chats.truncate_log();
        Ok(chats)
    }

    /// Creates an empty database in memory.
    ///
    /// # Errors
    /// If SQLite cannot create it.
    pub fn in_memory() -> Result<Self, ChatsError> {
        Ok(Self { writer: Mutex::new(schema::in_memory()?), reader: None, path: None, interrupted: 0, recovery: None })
    }

    /// Returns the number of answers that were interrupted when the last process ended.
    #[must_use]
    pub fn interrupted(&self) -> usize {
        self.interrupted
    }

    /// Runs a read-only operation.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, ChatsError>) -> Result<T, ChatsError> {
        let reader = self.reader.as_ref().unwrap_or(&self.writer);
        read(&reader.lock())
    }

    /// Runs a write operation in one transaction.
    fn write<T>(&self, write: impl FnOnce(&Connection) -> Result<T, ChatsError>) -> Result<T, ChatsError> {
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
