//! Errors of operations on collections.

use std::path::PathBuf;

use cairn_wire::excerpt;
use rusqlite::ErrorCode;

use crate::limits::MAX_NAME_CHARS;

/// Error of an operation on collections.
#[derive(Debug, thiserror::Error)]
pub enum CollectionsError {
    /// A newer version of Cairn wrote the file.
    #[error(
        "{} has collection format version {found}, and this program supports versions up to {supported}: a newer version of \
         Cairn wrote the file; it was not changed",
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
    #[error("{} is a database of another program, not of Cairn's collections; it was not changed", .0.display())]
    Foreign(PathBuf),
    /// The file cannot be opened or created.
    #[error("the collections in {} cannot be opened: {reason}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// No collection has the id.
    #[error("there is no collection {:?}", excerpt(.0))]
    NotFound(String),
    /// The collection has no document of the id.
    #[error("the collection has no document {:?}", excerpt(.0))]
    DocumentNotFound(String),
    /// The name is empty or too long.
    #[error("invalid name of a collection: it must have 1 to {MAX_NAME_CHARS} characters")]
    Name,
    /// A limit is reached.
    #[error("the limit of {limit} {what} is reached")]
    Full {
        /// Name of the counted things.
        what: &'static str,
        /// Largest number.
        limit: u64,
    },
    /// The disk has no space left.
    #[error("the collections cannot be written: the disk is full")]
    DiskFull,
    /// Other database error.
    #[error("cannot access the database of the collections: {0}")]
    Sql(rusqlite::Error),
    /// Stored JSON is invalid.
    #[error("stored data of a collection is not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<rusqlite::Error> for CollectionsError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            _ => Self::Sql(error),
        }
    }
}
