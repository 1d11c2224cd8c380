//! `/app/chats`: conversations that the daemon stores. Answers are computed whether or not a client follows them.
//!
//! The messages of a chat form a tree: an edited question and a second answer are siblings of the first. Ids are opaque
//! texts. `cairn-chats` stores these types, and `/app` sends them as they are: [`chat`] has chats and presets,
//! [`message`] messages and streamed answers, [`step`] calls of tools, [`sources`] passages
//! of documents, [`exchange`] exports and imports.

mod chat;
mod exchange;
mod message;
mod sources;
mod step;
mod stored_error;

use serde::{Deserialize, Serialize};

use crate::ErrorBody;

pub(in crate::app) use chat::given;
pub use chat::{
    Chat, ChatChange, ChatRow, ChatStatus, ChatSummary, NewChatRequest, Preset, PresetsResponse, StoredChat, Warmth,
};
pub use exchange::{ChatsExport, ChatsImportRequest, ChatsImported, ChatsToImport, ExportedChat, SkippedChat};
pub use message::{
    AnswerRequest, AttachedFile, ChatLine, ChatMessage, DeletedMessages, EditRequest, ForkRequest, HeadRequest,
    MessageState, MessagesResponse, PromptReading, SendRequest, StoppedResponse, WeightsLoading,
};
pub use sources::Sources;
pub use step::{
    CallDecision, DecideCallRequest, LeftOutCause, StepCall, StepCallState, StepLine, ToolStep, ToolsLeftOut,
};

/// `GET /app/chats?folder=&trash=&limit=&after=`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatsResponse {
    /// Pinned chats, last changed first; on the first page only.
    pub pinned: Vec<ChatSummary>,
    /// Other chats, last changed first.
    pub chats: Vec<ChatSummary>,
    /// Value of `after` for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// All folders with a chat, by name; on the first page only.
    pub folders: Vec<ChatFolder>,
    /// Notices since the daemon started: the last repair, and a failed erasure. On the first page only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<ErrorBody>,
}

/// A folder of chats. It exists while it has a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatFolder {
    /// Name of the folder.
    pub name: String,
    /// Number of chats, without those in the trash.
    pub chats: u64,
}

/// One line of `GET /app/chats/events`, which sends a line for each change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatEvent {
    /// A new chat, or a chat whose list row changed.
    Chat(Box<ChatSummary>),
    /// The id of a chat that was moved to the trash or deleted.
    Removed(String),
    /// Number of changes that are not sent one by one: of an import, or because the client read too slowly. The client
    /// should list again.
    Missed(u64),
}

/// `GET /app/chats/search?q=&limit=`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatSearchResponse {
    /// Titles first, then messages; newest first.
    pub hits: Vec<ChatHit>,
}

/// A message or title with all words of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatHit {
    /// The chat's id.
    pub chat: String,
    /// The chat's title.
    pub title: String,
    /// The message's id; absent if the title has the words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The text around the words, on one line.
    pub snippet: String,
    /// Positions of the words in the snippet: begin and end of each, in UTF-16 code units, as JavaScript counts.
    pub ranges: Vec<[u32; 2]>,
}

/// `POST /app/chats/{id}/prefetch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatPrefetched {
    /// Fastest location of the cached rows before the prefetch.
    pub warmth: Warmth,
    /// Number of prefixes that are prefetched to RAM.
    pub contexts: u64,
}
