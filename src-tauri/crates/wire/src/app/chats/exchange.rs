//! Export and import of chats.

use serde::{Deserialize, Serialize};

use super::chat::StoredChat;
use super::message::ChatMessage;
use crate::Timestamp;

/// `GET /app/chats/export`, and for one chat `GET /app/chats/{id}/export?format=json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatsExport {
    /// Name of the format: `cairn-chats`.
    pub format: String,
    /// Version of the format; 1.
    pub version: u32,
    /// Time of the export.
    pub exported_at: Timestamp,
    /// Chats, last changed first.
    pub chats: Vec<ExportedChat>,
}

/// A chat with all its branches. Imports also accept exports of older versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExportedChat {
    /// The chat.
    #[serde(flatten)]
    pub chat: StoredChat,
    /// Messages; a parent precedes its children.
    pub messages: Vec<ChatMessage>,
}

/// `GET /app/chats/import`: chats of other apps on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatsToImport {
    /// The database of Ollama's app; absent if there is none at the usual path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ollama_db: Option<String>,
}

/// `POST /app/chats/import`: exactly one source. The response is [`ChatsImported`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a JSON object")]
pub struct ChatsImportRequest {
    /// An export.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<ChatsExport>,
    /// Absolute path of the database of Ollama's app, which is only read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ollama_db: Option<String>,
}

/// Result of an import, which is one transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatsImported {
    /// Number of new chats.
    pub chats: u64,
    /// Number of their messages.
    pub messages: u64,
    /// Number of chats that existed already.
    pub present: u64,
    /// Chats that could not be imported.
    pub skipped: Vec<SkippedChat>,
}

/// A chat that could not be imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedChat {
    /// Title or id.
    pub title: String,
    /// The reason.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::chats::MessageState;

    #[test]
    fn export_of_an_older_version_can_be_read() {
        let old = r#"{"id":"c","title":"Bread","created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-02T00:00:00Z",
            "head":"2","messages":[{"id":"2","role":"assistant","content":"An","created_at":"2026-01-01T00:00:01Z",
            "state":"cut","error":"out of memory","stats":{"prompt_tokens":12,"cached_tokens":0,"tiers":[],
            "restore_ms":0,"instead_of_ms":0,"load_ms":0,"first_token_ms":5,"answer_tokens":3,
            "tokens_per_second":47.2,"length_reached":false}}]}"#;
        let old: ExportedChat = serde_json::from_str(old).expect("the export parses");
        assert_eq!((old.chat.row.title.as_str(), old.chat.row.pinned, old.chat.options.len()), ("Bread", false, 0));
        let [message] = &old.messages[..] else { panic!("one message: {old:?}") };
        assert_eq!(message.state, MessageState::Interrupted, "the earlier word of the state");
        assert_eq!(message.error.as_ref().map(|error| error.error.as_str()), Some("out of memory"), "only a text");
        assert_eq!(message.usage.as_ref().map(|usage| usage.answer_tokens), Some(3), "the earlier key of the usage");
    }
}
