//! Models that come, go and are listed, with what Ollama's interface does not tell of them. The answers are also what
//! commands print with `--json`.

use serde::{Deserialize, Serialize};

use super::Library;
use crate::ollama::TagsModel;

/// What `cairn list --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListedModels {
    /// As `/api/tags` has them.
    pub models: Vec<TagsModel>,
    /// Where they were looked for; empty when another server than our daemon was asked.
    pub libraries: Vec<Library>,
}

/// `POST /app/copy`: how far a [`crate::ollama::CopyRequest`] of our own clients has come; the last one is
/// [`CopyLine::Success`], or an error. Within a library there is no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[expect(missing_docs, reason = "bytes of one of the contents, done and in all")]
pub enum CopyLine {
    /// Its digest is computed.
    Hashing { completed: u64, total: u64 },
    /// It is copied, and its digest computed on the way.
    Copying { completed: u64, total: u64 },
    /// The model has its second name.
    Success(CopyResponse),
}

/// A copy that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyResponse {
    /// The model's name, as it was sent.
    pub source: String,
    /// Its second name, as it is spelled in the library.
    pub destination: String,
    /// Bytes that were written for it; `None` when another server than our daemon did it.
    pub copied_bytes: Option<u64>,
}

/// `POST /app/delete`: the answer to [`crate::ollama::DeleteRequest`] when our own clients ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteResponse {
    /// The model's name, as it was spelled in the library.
    pub model: String,
    /// Bytes of disk that are free now; `None` when another server than our daemon did it.
    pub freed_bytes: Option<u64>,
}
