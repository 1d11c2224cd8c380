//! Export and import of chats, and presets.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::message::{AttachedFile, MessageState};
use crate::{Think, Timestamp, Usage};

/// `GET /app/chats/export`, and for one chat `GET /app/chats/{id}/export?format=json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatsExport {
    /// `cairn-chats`.
    pub format: String,
    /// Version of the format; 1.
    pub version: u32,
    /// Time of the export.
    pub exported_at: Timestamp,
    /// Chats, last changed first.
    pub chats: Vec<ExportedChat>,
}

/// A chat with all its branches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "`Chat` documents the fields")]
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
    /// Messages; a parent precedes its children.
    pub messages: Vec<ExportedMessage>,
}

/// A message of an [`ExportedChat`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "`ChatMessage` documents the fields")]
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
    #[serde(default, alias = "stats", skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
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
#[serde(default, deny_unknown_fields)]
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

/// `GET /app/presets`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PresetsResponse {
    /// Presets, by name.
    pub presets: Vec<Preset>,
}

/// `GET|PUT|DELETE /app/presets/{name}`: parameters of new chats.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
