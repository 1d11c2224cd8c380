//! Chats without their messages, and presets.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::{Think, Timestamp};

/// Stored part of a chat's list row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatRow {
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
    #[serde(default)]
    pub pinned: bool,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last message.
    pub updated_at: Timestamp,
    /// Time of the move to the trash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
    /// Number of messages in all branches.
    #[serde(default)]
    pub message_count: u64,
}

/// A stored chat without its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredChat {
    /// Stored part of the list row.
    #[serde(flatten)]
    pub row: ChatRow,
    /// System message; if absent, the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Options of all requests, as in `/api/chat`.
    #[serde(default)]
    pub options: Map<String, Value>,
    /// Whether the model thinks first; if absent, the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// The preset of the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Id of the collection of documents in which the daemon searches for each question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Last message of the selected branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// Runtime status of a chat, which is not stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatStatus {
    /// Fastest location of the cached rows.
    pub warmth: Warmth,
    /// Whether an answer is in progress.
    pub answering: bool,
    /// Whether the chat is only in memory until the daemon stops.
    pub temporary: bool,
}

/// Fastest location of a chat's cached rows. Variants are ordered from slow to fast.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Warmth {
    /// Not cached.
    #[default]
    Cold,
    /// In the SSD tier or the remote tier.
    Disk,
    /// In the RAM tier.
    Warm,
    /// In the pages of a loaded model.
    Hot,
}

/// List row of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatSummary {
    /// The stored part.
    #[serde(flatten)]
    pub row: ChatRow,
    /// The runtime status.
    #[serde(flatten)]
    pub status: ChatStatus,
}

/// `GET /app/chats/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chat {
    /// The stored part.
    #[serde(flatten)]
    pub stored: StoredChat,
    /// The runtime status.
    #[serde(flatten)]
    pub status: ChatStatus,
}

/// `POST /app/chats`. The response is a [`Chat`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a JSON object")]
pub struct NewChatRequest {
    /// Title; if absent or blank, it is generated.
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
    /// Id of the collection of documents in which the daemon searches for each question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Whether the chat is in memory only, and is never written to disk.
    pub temporary: bool,
}

/// `PATCH /app/chats/{id}`. Absent fields stay unchanged; `null` removes an optional value. The response is a [`Chat`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChatChange {
    /// Title; a blank one is generated again.
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
    /// Id of the collection of documents in which the daemon searches for each question.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub collection: Option<Option<String>>,
}

/// Distinguishes `null` from an absent field.
pub(in crate::app) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// `GET /app/presets`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PresetsResponse {
    /// Presets, by name.
    pub presets: Vec<Preset>,
}

/// `GET|PUT|DELETE /app/presets/{name}`: parameters of new chats.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a preset, which is a JSON object")]
pub struct Preset {
    /// Name; the name in the path takes precedence.
    pub name: String,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// System message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Options of all requests.
    pub options: Map<String, Value>,
    /// Whether the model thinks first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
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
