//! `/app/chats`: conversations, which the daemon keeps and whose answers it computes whether or not anybody watches.
//!
//! A chat's messages form a tree: an edited question and a second answer are siblings of the first. Ids are texts that mean
//! nothing to clients. What streams is in [`message`], what goes out and comes in is in [`exchange`].

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
    AnswerRequest, AttachedFile, ChatLine, ChatMessage, FailedAnswer, HeadRequest, MessageState, MessageStats,
    MessagesResponse, SendRequest, StoppedResponse,
};

/// `GET /app/chats?folder=&trash=&limit=&after=`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatsResponse {
    /// Those that are pinned, the last changed first; on the first page only.
    pub pinned: Vec<ChatSummary>,
    /// The others, the last changed first.
    pub chats: Vec<ChatSummary>,
    /// What to send as `after` for those that follow; absent where none do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// All folders that have a chat, by name; on the first page only.
    pub folders: Vec<ChatFolder>,
}

/// A folder of chats. It is there for as long as a chat is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatFolder {
    /// Its name.
    pub name: String,
    /// Chats in it, without those in the trash.
    pub chats: u64,
}

/// What lists say of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatSummary {
    /// Names it.
    pub id: String,
    /// What it is called; empty before anything was said.
    pub title: String,
    /// The model that answers next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The folder that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Whether it stays on top.
    pub pinned: bool,
    /// When it began.
    pub created_at: Timestamp,
    /// When something was last said in it.
    pub updated_at: Timestamp,
    /// When it was put into the trash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
    /// Messages in all its branches.
    pub messages: u64,
    /// How soon it could go on.
    pub warmth: Warmth,
    /// Whether an answer is being computed.
    pub answering: bool,
    /// Whether it is only in memory, and gone when the daemon ends.
    pub temporary: bool,
}

/// Where what was computed of a chat is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Warmth {
    /// In the pages of a loaded model.
    Hot,
    /// In RAM.
    Warm,
    /// On this machine's disk, or in the remote tier.
    Disk,
    /// Nowhere.
    #[default]
    Cold,
}

/// `GET /app/chats/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chat {
    /// What lists say of it.
    #[serde(flatten)]
    pub summary: ChatSummary,
    /// What the model is told first; the model's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Options of every request, as in `/api/chat`.
    pub options: Map<String, Value>,
    /// Whether the model thinks first; as the model does when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// The preset that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The last message of the branch that is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// `POST /app/chats`. Answered by a [`Chat`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NewChatRequest {
    /// What it is called; from what is said in it when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The model that is to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The folder that it is to be in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// What the model is told first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Options of every request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Map<String, Value>>,
    /// Whether the model is to think first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// A preset, which says what the other fields do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Leave nothing on any disk.
    pub temporary: bool,
}

/// `PATCH /app/chats/{id}`: what is to change. `null` takes away what can be without. Answered by a [`Chat`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChatChange {
    /// What it is called; an empty one is made up again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The model that is to answer.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub model: Option<Option<String>>,
    /// The folder.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub folder: Option<Option<String>>,
    /// Whether it stays on top.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    /// What the model is told first.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub system: Option<Option<String>>,
    /// Options of every request, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Map<String, Value>>,
    /// Whether the model is to think first.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub think: Option<Option<Think>>,
    /// The preset whose name is shown.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub preset: Option<Option<String>>,
}

/// Tells `null` from a field that is not there.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// One line of `GET /app/chats/events`, which has one for each change from when it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatEvent {
    /// The chat is new, or looks different in a list.
    Chat(ChatSummary),
    /// The chat of this id is in the trash, or gone.
    Removed(String),
    /// So many changes were not told, because they were read too slowly: list again.
    Missed(u64),
}

/// `GET /app/chats/search?q=&limit=`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatSearchResponse {
    /// Titles first, then messages; of each the newest first.
    pub hits: Vec<ChatHit>,
}

/// A message, or a title, that has all the words of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatHit {
    /// The chat's id.
    pub chat: String,
    /// The chat's title.
    pub title: String,
    /// The message's id; absent where the title has the words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The text around the words.
    pub snippet: String,
    /// Where the words are in it: begin and end of each, in UTF-16 code units, as JavaScript counts.
    pub ranges: Vec<[u32; 2]>,
}

/// `POST /app/chats/{id}/prefetch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatPrefetched {
    /// How soon the chat could go on, before anything was brought nearer.
    pub warmth: Warmth,
    /// How many of its prefixes are being brought to RAM.
    pub contexts: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_takes_away_and_absence_does_not() {
        let check = |json: &str, folder: Option<Option<&str>>| {
            let change: ChatChange = serde_json::from_str(json).expect("a change");
            assert_eq!(change.folder, folder.map(|folder| folder.map(str::to_owned)), "{json}");
            assert_eq!(serde_json::to_string(&change).expect("it can be written"), json, "printing it back");
        };
        check("{}", None);
        check(r#"{"folder":null}"#, Some(None));
        check(r#"{"folder":"a"}"#, Some(Some("a")));
        let unknown = serde_json::from_str::<ChatChange>(r#"{"flder":"a"}"#);
        assert!(unknown.is_err(), "a change that would be none is refused");
    }
}
