//! Errors of documents.

use std::time::Duration;

/// Why a document could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The document has no text, or exceeds a limit.
    #[error(transparent)]
    Document(#[from] cairn_documents::Error),
    /// Reading took too long.
    #[error("reading the document took longer than {} s, so it was stopped", .0.as_secs())]
    Timeout(Duration),
    /// The process that reads the document ended before the end of the document.
    #[error("the process that read the document ended early ({0}): the document is damaged, or needs too much memory")]
    Crashed(String),
    /// The process that reads the document cannot be started or used.
    #[error("cannot run the process that reads documents: {0}")]
    Process(String),
}
