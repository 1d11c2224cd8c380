//! The error of any use case: one variant for each area.

use crate::{cache, chats, inference, library, settings, transfers};

/// Why a use case failed. Each area has an error type of its own; transports map all of them to their codes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The daemon could not start.
    #[error("cannot start the engine: {0}")]
    Start(String),
    /// Settings.
    #[error(transparent)]
    Settings(#[from] settings::SettingsError),
    /// Models on this machine.
    #[error(transparent)]
    Library(#[from] library::Error),
    /// Pull, push, mirror, trust.
    #[error(transparent)]
    Transfers(#[from] transfers::Error),
    /// The cache of prefixes.
    #[error(transparent)]
    Cache(#[from] cache::Error),
    /// Requests to models.
    #[error(transparent)]
    Inference(#[from] inference::Error),
    /// Chats.
    #[error(transparent)]
    Chats(#[from] chats::Error),
}
