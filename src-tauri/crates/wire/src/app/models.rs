//! Lists, copies and deletions of models, with details that Ollama's API does not have. Commands print these types with
//! `--json`.

use serde::{Deserialize, Serialize};

use super::Library;
use crate::ollama::TagsModel;

/// Output of `cairn list --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListedModels {
    /// The models, as in `/api/tags`.
    pub models: Vec<TagsModel>,
    /// The searched libraries; empty for servers other than Cairn.
    pub libraries: Vec<Library>,
}

/// `POST /app/copy`: progress of a [`crate::ollama::CopyRequest`] of Cairn's own clients. The last line is
/// [`CopyLine::Success`] or an error. A copy within a library sends only this line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[expect(missing_docs, reason = "bytes of one blob, completed and in total")]
pub enum CopyLine {
    /// The digest is computed.
    Hashing { completed: u64, total: u64 },
    /// The blob is copied and its digest computed.
    Copying { completed: u64, total: u64 },
    /// The model has its second name.
    Success(CopyResponse),
}

/// Result of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyResponse {
    /// Name of the source, as the client sent it.
    pub source: String,
    /// The new name, as stored.
    pub destination: String,
    /// Bytes written; `None` for servers other than Cairn.
    pub copied_bytes: Option<u64>,
}

/// `POST /app/delete`: response to a [`crate::ollama::DeleteRequest`] of Cairn's own clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteResponse {
    /// Name of the model, as stored.
    pub model: String,
    /// Freed bytes; `None` for servers other than Cairn.
    pub freed_bytes: Option<u64>,
}
