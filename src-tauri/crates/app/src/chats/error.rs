//! Errors of chats.

use cairn_chats::ChatsError;
use cairn_chats::ollama::OllamaError;

use crate::{cache, inference};

/// Why an operation on a chat failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One answer at a time.
    #[error("an answer is being computed in this chat; stop it first, or wait for its end")]
    Answering,
    /// No model is to answer.
    #[error("this chat has no model yet; choose one")]
    NoModel,
    /// There is nothing to answer.
    #[error("there is nothing in the message to answer")]
    Empty,
    /// Only what a user said is answered.
    #[error("message {0} is no user's, so it has no answer")]
    NoQuestion(String),
    /// Only a last answer goes on.
    #[error("message {0} is no answer that could go on: it is a user's, or something follows it")]
    NoAnswer(String),
    /// Either or.
    #[error("an answer is computed anew (message) or goes on (continue): say one of them")]
    Unclear,
    /// It is in the trash.
    #[error("the chat is in the trash; restore it first")]
    Deleted,
    /// Nothing is being computed in this chat.
    #[error("no answer is being computed in this chat")]
    Quiet,
    /// Another program's chats cannot be brought.
    #[error(transparent)]
    Ollama(#[from] OllamaError),
    /// An import of nothing, or of two things.
    #[error("an import is of one thing: an export of Cairn's chats, or the database of Ollama's app")]
    NoImport,
    /// A path that depends on where the daemon runs.
    #[error("the path {0:?} is not absolute")]
    Relative(String),
    /// An export that this version does not know.
    #[error("it is no export of Cairn's chats of version 1: format {format:?}, version {version}")]
    Format {
        /// What it says that it is.
        format: String,
        /// And of which version.
        version: u32,
    },
    /// The daemon is shutting down.
    #[error("interrupted: the daemon is shutting down")]
    ShuttingDown,
    /// The database cannot be read or written, or has no such entry.
    #[error(transparent)]
    Store(#[from] ChatsError),
    /// The model could not answer.
    #[error(transparent)]
    Inference(#[from] inference::Error),
    /// The cache cannot be asked.
    #[error(transparent)]
    Cache(#[from] cache::Error),
}
