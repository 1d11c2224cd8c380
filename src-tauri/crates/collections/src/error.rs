//! Errors of operations on collections.

use cairn_sqlite::{DatabaseError, FileError};
use cairn_wire::excerpt;

use crate::limits::MAX_NAME_CHARS;

/// Error of an operation on collections.
#[derive(Debug, thiserror::Error)]
pub enum CollectionsError {
    /// The file cannot be opened, read or written.
    #[error("cannot use the collections: {0}")]
    File(FileError),
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
    /// Stored JSON is invalid.
    #[error("stored data of a collection is not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl DatabaseError for CollectionsError {
    fn damage(&self) -> Option<String> {
        match self {
            Self::File(error) => error.damage(),
            _ => None,
        }
    }
}

impl From<FileError> for CollectionsError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

impl From<rusqlite::Error> for CollectionsError {
    fn from(error: rusqlite::Error) -> Self {
        Self::File(error.into())
    }
}
