//! Errors of chat operations.

use std::path::PathBuf;

use cairn_sqlite::{DatabaseError, FileError};
use cairn_wire::excerpt;

/// Error of a chat operation.
#[derive(Debug, thiserror::Error)]
pub enum ChatsError {
    /// A newer version of Cairn wrote the file.
    #[error(
        "{} has chat format version {found}, and this program supports versions up to {supported}: a newer version of Cairn wrote \
         the file; it was not changed",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of its schema.
        found: i64,
        /// Newest supported version.
        supported: usize,
    },
    /// The file belongs to another program.
    #[error("{} is a database of another program, not of Cairn's chats; it was not changed", .0.display())]
    Foreign(PathBuf),
    /// The file cannot be opened or created.
    #[error("the chats in {} cannot be opened: {reason}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A backup could not be written. An older file was not migrated then.
    #[error("a backup of the chats cannot be written to {}: {reason}", path.display())]
    Backup {
        /// Path of the backup.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// No chat has the id.
    #[error("there is no chat {:?}", excerpt(.0))]
    ChatNotFound(String),
    /// The chat has no message of the id.
    #[error("the chat has no message {}", excerpt(.0))]
    MessageNotFound(String),
    /// No preset has the name.
    #[error("there is no preset {:?}", excerpt(.0))]
    PresetNotFound(String),
    /// The text is not a cursor that a list returned.
    #[error("{:?} is not the end of a page of chats", excerpt(.0))]
    InvalidPageCursor(String),
    /// Part of the file is not valid.
    #[error("the chat database is damaged: {0}")]
    Damaged(rusqlite::Error),
    /// A check of the file found a fault.
    #[error("the chat database is damaged: {0}")]
    CheckFailed(String),
    /// A damaged file cannot be replaced.
    #[error("the damaged file {} of the chats cannot be repaired: {reason}", path.display())]
    Repair {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A file that has a copy of a deleted chat cannot be removed.
    #[error("{} cannot be removed, and may contain deleted chats: {reason}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Another process reads the database, so that the write-ahead log cannot be truncated.
    #[error("the log of the database cannot be emptied: another program is reading the chats")]
    LogInUse,
    /// The disk has no space left for the chats.
    #[error("the chats cannot be written: the disk is full")]
    DiskFull,
    /// The file or its folder cannot be written.
    #[error("the chats cannot be written: the file or its folder is read-only")]
    ReadOnly,
    /// Other database error.
    #[error("cannot access the chat database: {0}")]
    Sql(rusqlite::Error),
    /// Stored JSON is invalid.
    #[error("stored chat data is not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl DatabaseError for ChatsError {
    fn damage(&self) -> Option<String> {
        match self {
            Self::Damaged(error) => Some(error.to_string()),
            Self::CheckFailed(found) => Some(found.clone()),
            _ => None,
        }
    }
}

impl From<FileError> for ChatsError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Newer { path, found, supported } => Self::Newer { path, found, supported },
            FileError::Foreign(path) => Self::Foreign(path),
            FileError::Open { path, reason } => Self::Open { path, reason },
            FileError::Backup { path, reason } => Self::Backup { path, reason },
            FileError::Damaged(error) => Self::Damaged(error),
            FileError::CheckFailed(found) => Self::CheckFailed(found),
            FileError::Repair { path, reason } => Self::Repair { path, reason },
            FileError::Remove { path, reason } => Self::Remove { path, reason },
            FileError::LogInUse => Self::LogInUse,
            FileError::DiskFull => Self::DiskFull,
            FileError::ReadOnly => Self::ReadOnly,
            FileError::Sql(error) => Self::Sql(error),
        }
    }
}

impl From<rusqlite::Error> for ChatsError {
    fn from(error: rusqlite::Error) -> Self {
        FileError::from(error).into()
    }
}
