//! What goes out of the chats and comes in, and presets.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::message::{AttachedFile, MessageState, MessageStats};
use crate::{Think, Timestamp};

/// `GET /app/chats/export`, and of one chat `GET /app/chats/{id}/export?format=json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatsExport {
    /// `cairn-chats`.
    pub format: String,
    /// Version of the format; 1.
    pub version: u32,
    /// When it was written.
    pub exported_at: Timestamp,
    /// The chats, the last changed first.
    pub chats: Vec<ExportedChat>,
}

/// A chat with all its branches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names mean what they mean in `Chat`")]
pub struct ExportedChat {
    pub id: String,
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    #[serde(default)]
    pub pinned: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    #[serde(default)]
    pub options: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Each after the one that it follows.
    pub messages: Vec<ExportedMessage>,
}

/// A message of an [`ExportedChat`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names mean what they mean in `ChatMessage`")]
pub struct ExportedMessage {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    pub role: String,
    pub content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<AttachedFile>,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub state: MessageState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<MessageStats>,
}

/// `GET /app/chats/import`: chats of other apps that are on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatsToImport {
    /// The database of Ollama's own app; absent where there is none at its usual place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ollama_db: Option<String>,
}

/// `POST /app/chats/import`: one of the two. Answered by [`ChatsImported`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChatsImportRequest {
    /// What an export has written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<ChatsExport>,
    /// Absolute path of the database of Ollama's own app; it is only read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ollama_db: Option<String>,
}

/// What an import has brought. All of it is there, or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatsImported {
    /// Chats that are new.
    pub chats: u64,
    /// Their messages.
    pub messages: u64,
    /// Chats that were here already.
    pub present: u64,
    /// Chats that could not be brought.
    pub skipped: Vec<SkippedChat>,
}

/// A chat that an import left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedChat {
    /// What it is called, or its id.
    pub title: String,
    /// Why.
    pub reason: String,
}

/// `GET /app/presets`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PresetsResponse {
    /// By name.
    pub presets: Vec<Preset>,
}

/// `GET|PUT|DELETE /app/presets/{name}`: what a new chat begins with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Preset {
    /// What it is called; the path's name goes before it.
    pub name: String,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the model is told first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Options of every request.
    pub options: Map<String, Value>,
    /// Whether the model thinks first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
}
