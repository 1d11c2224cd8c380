//! Errors of collections.

use cairn_collections::CollectionsError;

use crate::panics::Panicked;
use crate::values::{ErrorBody, excerpt};
use crate::{documents, inference, library};

/// Describes an error as clients see it and as it is stored with a document: text, code and parameters.
pub type DescribeError = fn(&Error) -> ErrorBody;

/// Why an operation on a collection failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database cannot be read or written, or has no such entry.
    #[error(transparent)]
    Store(#[from] CollectionsError),
    /// The document could not be read.
    #[error(transparent)]
    Documents(#[from] documents::Error),
    /// The embedding model failed.
    #[error(transparent)]
    Inference(#[from] inference::Error),
    /// The embedding model cannot be found or read.
    #[error(transparent)]
    Library(#[from] library::Error),
    /// The chosen model is not an embedding model.
    #[error("{:?} is not an embedding model", excerpt(.0))]
    NoEmbeddings(String),
    /// A search without a query.
    #[error("the query is empty; write a question or words")]
    NoQuery,
    /// The daemon stopped while it read the document.
    #[error("the daemon stopped while it read the document; add it again")]
    Interrupted,
    /// The daemon is shutting down.
    #[error("the daemon is shutting down")]
    ShuttingDown,
    /// A task panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}
