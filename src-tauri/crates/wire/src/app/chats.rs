//! `/app/chats`: conversations that the daemon stores. Answers are computed whether or not a client follows them.
//!
//! The messages of a chat form a tree: an edited question and a second answer are siblings of the first. Ids are opaque
//! texts. Types of streams are in [`message`], types of export and import in [`exchange`].

mod exchange;
mod message;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::{Think, Timestamp};
pub use exchange::{
    ChatsExport, ChatsImportRequest, ChatsImported, ChatsToImport, ExportedChat, ExportedMessage, Preset,
    PresetsResponse, SkippedChat,
};
pub use message::{
    AnswerRequest, AttachedFile, ChatLine, ChatMessage, FailedAnswer, HeadRequest, MessageState, MessagesResponse,
    SendRequest, StoppedResponse,
};

/// `GET /app/chats?folder=&trash=&limit=&after=`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
}

/// A folder of chats. It exists while it has a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatFolder {
    /// Name of the folder.
    pub name: String,
    /// Number of chats, without those in the trash.
    pub chats: u64,
}

/// List row of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatSummary {
    /// Id of the chat.
    pub id: String,
    /// Title; empty before the first message.
    pub title: String,
    /// Model of the next answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Folder of the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Whether the chat is pinned to the top.
    pub pinned: bool,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last message.
    pub updated_at: Timestamp,
    /// Time of the move to the trash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
    /// Number of messages in all branches.
    pub messages: u64,
    /// Nearest place of the cached rows.
    pub warmth: Warmth,
    /// Whether an answer is in progress.
    pub answering: bool,
    /// Whether the chat is only in memory until the daemon stops.
    pub temporary: bool,
}

/// Nearest place of a chat's cached rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Warmth {
    /// In the pages of a loaded model.
    Hot,
    /// In the RAM tier.
    Warm,
    /// In the SSD tier or the remote tier.
    Disk,
    /// Not cached.
    #[default]
    Cold,
}

/// `GET /app/chats/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chat {
    /// List row of the chat.
    #[serde(flatten)]
    pub summary: ChatSummary,
    /// System message; if absent, the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Options of all requests, as in `/api/chat`.
    pub options: Map<String, Value>,
    /// Whether the model thinks first; if absent, the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// The preset of the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Last message of the selected branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// `POST /app/chats`. The response is a [`Chat`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NewChatRequest {
    /// Title; if absent, it is generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Model of the answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Folder of the chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// System message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Options of every request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Map<String, Value>>,
    /// Whether the model thinks first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// A preset, which sets absent fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Never write the chat to a disk.
    pub temporary: bool,
}

/// `PATCH /app/chats/{id}`. Absent fields stay unchanged; `null` removes an optional value. The response is a [`Chat`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChatChange {
    /// Title; an empty one is generated again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Model of the answers.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub model: Option<Option<String>>,
    /// The folder.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub folder: Option<Option<String>>,
    /// Whether the chat is pinned to the top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    /// System message.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub system: Option<Option<String>>,
    /// Options of all requests, which replace the old ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Map<String, Value>>,
    /// Whether the model thinks first.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub think: Option<Option<Think>>,
    /// The preset of the chat.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub preset: Option<Option<String>>,
}

/// Distinguishes `null` from an absent field.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// One line of `GET /app/chats/events`, which sends a line for each change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatEvent {
    /// A new chat, or a chat whose list row changed.
    Chat(ChatSummary),
    /// The id of a chat that was moved to the trash or deleted.
    Removed(String),
    /// Number of changes that were dropped because the client read too slowly. The client should list again.
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
    /// The text around the words.
    pub snippet: String,
    /// Positions of the words in the snippet: begin and end of each, in UTF-16 code units, as JavaScript counts.
    pub ranges: Vec<[u32; 2]>,
}

/// `POST /app/chats/{id}/prefetch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatPrefetched {
    /// Nearest place of the cached rows before the prefetch.
    pub warmth: Warmth,
    /// Number of prefixes that are prefetched to RAM.
    pub contexts: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_removes_a_value_and_absence_keeps_it() {
        let check = |json: &str, folder: Option<Option<&str>>| {
            let change: ChatChange = serde_json::from_str(json).expect("a change");
            assert_eq!(change.folder, folder.map(|folder| folder.map(str::to_owned)), "{json}");
            assert_eq!(serde_json::to_string(&change).expect("the change serialises"), json, "serialised");
        };
        check("{}", None);
        check(r#"{"folder":null}"#, Some(None));
        check(r#"{"folder":"a"}"#, Some(Some("a")));
        let unknown = serde_json::from_str::<ChatChange>(r#"{"flder":"a"}"#);
        assert!(unknown.is_err(), "an unknown field is refused");
    }
}
