//! The error of any use case: one variant for each area.

use crate::secret::RandomError;
use crate::{
    cache, chats, collections, documents, inference, keys, library, remotes, settings, speed, tools, transfers,
};

/// Why a use case failed. Each area has an error type of its own; transports map all of them to their codes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The daemon could not start.
    #[error("cannot start the engine: {0}")]
    Start(String),
    /// Reading or changing settings failed.
    #[error(transparent)]
    Settings(#[from] settings::SettingsError),
    /// An operation on local models failed.
    #[error(transparent)]
    Library(#[from] library::Error),
    /// A measurement failed.
    #[error(transparent)]
    Speed(#[from] speed::Error),
    /// A transfer failed: pull, push, mirror or trust.
    #[error(transparent)]
    Transfers(#[from] transfers::Error),
    /// Managing remotes failed.
    #[error(transparent)]
    Remotes(#[from] remotes::Error),
    /// Managing tools failed.
    #[error(transparent)]
    Tools(#[from] tools::Error),
    /// A cache operation failed.
    #[error(transparent)]
    Cache(#[from] cache::Error),
    /// An inference request failed.
    #[error(transparent)]
    Inference(#[from] inference::Error),
    /// A chat operation failed.
    #[error(transparent)]
    Chats(#[from] chats::Error),
    /// An operation on collections failed.
    #[error(transparent)]
    Collections(#[from] collections::Error),
    /// Reading a document failed.
    #[error(transparent)]
    Documents(#[from] documents::Error),
    /// An operation on API keys failed.
    #[error(transparent)]
    Keys(#[from] keys::Error),
    /// The system gives no random numbers.
    #[error(transparent)]
    Random(#[from] RandomError),
}
