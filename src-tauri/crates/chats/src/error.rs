//! Errors of chat operations.

use std::path::PathBuf;

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
    /// An older file was not migrated, because its backup could not be written.
    #[error("the chats are of an older version, and a copy of them could not be written to {}: {reason}", path.display())]
    Backup {
        /// Path of the backup.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// No chat has the id.
    #[error("there is no chat {0:?}")]
    ChatNotFound(String),
    /// The chat has no message of the id.
    #[error("the chat has no message {0}")]
    MessageNotFound(String),
    /// No preset has the name.
    #[error("there is no preset {0:?}")]
    PresetNotFound(String),
    /// The text is not a cursor that a list returned.
    #[error("{0:?} is not the end of a page of chats")]
    InvalidPageCursor(String),
    /// Database error.
    #[error("the chats: {0}")]
    Sql(#[from] rusqlite::Error),
    /// Stored JSON is invalid.
    #[error("the chats: {0}")]
    Json(#[from] serde_json::Error),
}
