//! Errors of chats.

use cairn_chats::ollama::OllamaError;
use cairn_chats::{ChatsError, Repair};

use crate::values::{ErrorBody, excerpt};
use crate::{cache, inference, tools};

/// Describes an error as clients see it and as it is stored with an answer: text, code and parameters.
pub type DescribeError = fn(&Error) -> ErrorBody;

/// Why an operation on a chat failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The chat already has an answer in progress.
    #[error("this chat already has an answer in progress; stop it first, or wait for its end")]
    Answering,
    /// The chat has no model.
    #[error("this chat has no model yet; choose one")]
    NoModel,
    /// The message is empty.
    #[error("the message is empty; write a text or add a file")]
    Empty,
    /// Only a user's message can be answered.
    #[error("cannot answer message {}: it is not a user's message", excerpt(.0))]
    NoQuestion(String),
    /// Only the last answer of a branch can be continued.
    #[error("cannot continue message {}: it is not the last answer of its branch", excerpt(.0))]
    NoAnswer(String),
    /// Only an answer can be edited in its place.
    #[error("cannot edit message {}: it is not an answer; send an edited question with the parent of the question", excerpt(.0))]
    NotAnAnswer(String),
    /// The request names no action, or two.
    #[error("the request must have either \"message\" (answer again) or \"continue\"")]
    Unclear,
    /// The chat is in the trash.
    #[error("the chat is in the trash; restore it first")]
    Deleted,
    /// No such call waits for a decision.
    #[error("no call {:?} waits for a decision in this chat", excerpt(.0))]
    NoCall(String),
    /// Another program's chats cannot be imported.
    #[error(transparent)]
    Ollama(#[from] OllamaError),
    /// An import with no source, or with two.
    #[error("an import needs one source: an export of Cairn's chats, or the database of Ollama's app")]
    NoImport,
    /// A relative path.
    #[error("the path {:?} is not absolute", excerpt(.0))]
    Relative(String),
    /// An unknown export format.
    #[error("cannot read the export: it must be \"cairn-chats\" of version 1, but is {:?} of version {version}", excerpt(.format))]
    Format {
        /// Format of the export.
        format: String,
        /// Version of the format.
        version: u32,
    },
    /// The daemon is shutting down.
    #[error("interrupted: the daemon is shutting down")]
    ShuttingDown,
    /// The database cannot be read or written, or has no such entry.
    #[error(transparent)]
    Store(#[from] ChatsError),
    /// A notice: the database was damaged and has been repaired.
    #[error("{}; the damaged file is kept as {}", repair_summary(.0), .0.set_aside.display())]
    Repaired(Repair),
    /// A notice: copies of chats that were deleted forever may remain.
    #[error("files may still contain chats that were deleted forever; Cairn will retry: {0}")]
    NotErased(ChatsError),
    /// Inference failed.
    #[error(transparent)]
    Inference(#[from] inference::Error),
    /// The permission of a tool cannot be stored.
    #[error(transparent)]
    Tools(#[from] tools::Error),
    /// The cache failed.
    #[error(transparent)]
    Cache(#[from] cache::Error),
}

/// Describes a repair without the damaged file.
pub(super) fn repair_summary(repair: &Repair) -> String {
    let Repair { reason, chats, messages, .. } = repair;
    format!("repaired the damaged chat database ({reason}): it now has {chats} chats with {messages} messages")
}
