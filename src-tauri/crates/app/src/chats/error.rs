//! Why something with a chat cannot be done, beside what the file itself says.

use cairn_chats::ollama::OllamaError;

use crate::Kind;
use crate::chats::ChatsError;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
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
}

impl ChatError {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Answering | Self::Deleted => Kind::Conflict,
            Self::Quiet => Kind::NotFound,
            Self::NoModel
            | Self::Empty
            | Self::NoQuestion(_)
            | Self::NoAnswer(_)
            | Self::Unclear
            | Self::Ollama(_)
            | Self::NoImport
            | Self::Relative(_)
            | Self::Format { .. } => Kind::BadRequest,
        }
    }
}

/// What an error of the file means to whoever asked.
pub(crate) fn kind(error: &ChatsError) -> Kind {
    match error {
        ChatsError::NoChat(_) | ChatsError::NoMessage(_) | ChatsError::NoPreset(_) => Kind::NotFound,
        ChatsError::NoPage(_) => Kind::BadRequest,
        ChatsError::Newer { .. } | ChatsError::Foreign(_) => Kind::Conflict,
        ChatsError::Open { .. } | ChatsError::Backup { .. } | ChatsError::Sql(_) | ChatsError::Json(_) => {
            Kind::Internal
        }
    }
}
