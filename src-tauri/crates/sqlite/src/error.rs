//! Errors of a database file.

use std::path::PathBuf;

use rusqlite::ErrorCode;

/// Error of an operation on a database file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A newer version of Cairn wrote the file.
    #[error(
        "{} has format version {found}, and this program supports versions up to {supported}: a newer version of Cairn wrote \
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
    #[error("{} is a database of another program, not of Cairn; it was not changed", .0.display())]
    Foreign(PathBuf),
    /// The file cannot be opened or created.
    #[error("{} cannot be opened: {reason}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A backup could not be written. An older file was not migrated then.
    #[error("a backup cannot be written to {}: {reason}", path.display())]
    Backup {
        /// Path of the backup.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Part of the file is not valid.
    #[error("the database is damaged: {0}")]
    Damaged(rusqlite::Error),
    /// A check of the file found a fault.
    #[error("the database is damaged: {0}")]
    CheckFailed(String),
    /// A damaged file cannot be replaced.
    #[error("the damaged file {} cannot be repaired: {reason}", path.display())]
    Repair {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A file that has a copy of deleted rows cannot be removed.
    #[error("{} cannot be removed, and may contain deleted data: {reason}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Another process reads the database, so that the write-ahead log cannot be truncated.
    #[error("the log of the database cannot be emptied: another program is reading the database")]
    LogInUse,
    /// The disk has no space left.
    #[error("the database cannot be written: the disk is full")]
    DiskFull,
    /// The file or its folder cannot be written.
    #[error("the database cannot be written: the file or its folder is read-only")]
    ReadOnly,
    /// Other database error.
    #[error("cannot access the database: {0}")]
    Sql(rusqlite::Error),
}

/// Error type of a crate that stores its data in a [`crate::Database`].
pub trait DatabaseError: From<FileError> + From<rusqlite::Error> {
    /// Returns the fault of the file, if it is damaged and can be repaired.
    fn damage(&self) -> Option<String>;
}

impl DatabaseError for FileError {
    fn damage(&self) -> Option<String> {
        match self {
            Self::Damaged(error) => Some(error.to_string()),
            Self::CheckFailed(found) => Some(found.clone()),
            _ => None,
        }
    }
}

impl From<rusqlite::Error> for FileError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error),
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            Some(ErrorCode::ReadOnly) => Self::ReadOnly,
            _ => Self::Sql(error),
        }
    }
}
