//! Why something with chats cannot be done.

use std::path::PathBuf;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum ChatsError {
    /// The file is of a version to come.
    #[error(
        "{} has version {found} of the layout of chats, and this program knows versions up to {known}: a newer version of Cairn \
         wrote it; it was left as it is",
        path.display()
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// The version of its layout.
        found: i64,
        /// The newest that this program knows.
        known: usize,
    },
    /// The file is another program's.
    #[error("{} is a database, and none of Cairn's chats; it was left as it is", .0.display())]
    Foreign(PathBuf),
    /// The file cannot be opened or made.
    #[error("the chats in {} cannot be opened: {reason}", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// An older file was not brought to this version, because no copy of it could be written.
    #[error("the chats are of an older version, and a copy of them could not be written to {}: {reason}", path.display())]
    Backup {
        /// Which copy.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// No chat of that id.
    #[error("there is no chat {0:?}")]
    NoChat(String),
    /// No message of that id in that chat.
    #[error("the chat has no message {0}")]
    NoMessage(String),
    /// No preset of that name.
    #[error("there is no preset {0:?}")]
    NoPreset(String),
    /// A text that no list gave as its continuation.
    #[error("{0:?} is not the end of a page of chats")]
    NoPage(String),
    /// What the database itself says.
    #[error("the chats: {0}")]
    Sql(#[from] rusqlite::Error),
    /// What was read back is not what was written.
    #[error("the chats: {0}")]
    Json(#[from] serde_json::Error),
}
