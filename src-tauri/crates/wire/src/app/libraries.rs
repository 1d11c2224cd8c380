//! `GET /app/libraries` and `GET /app/usage`: the libraries of models and their disk usage.

use serde::{Deserialize, Serialize};

/// `GET /app/libraries`: all libraries; Cairn's own is first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibrariesResponse {
    /// The libraries.
    pub libraries: Vec<Library>,
}

/// A library of models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// Root folder.
    pub path: String,
    /// Role of the library.
    pub role: LibraryRole,
    /// Whether the library exists and can be read.
    pub state: LibraryState,
    /// Why the library is absent or unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the absence is unexpected. Cairn's own library is created with its first model.
    pub missed: bool,
    /// Number of models.
    pub models: u64,
    /// Unreadable manifests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedFile>,
}

/// An unreadable manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub struct SkippedFile {
    pub path: String,
    pub reason: String,
}

/// Role of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LibraryRole {
    /// Cairn's own library; new models are stored there.
    Own,
    /// A library that the user linked; read-only.
    Linked,
    /// Ollama's library; read-only.
    Found,
}

/// State of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LibraryState {
    /// The library exists.
    Present,
    /// The library does not exist, or its disk is not mounted.
    Absent,
    /// The library exists but cannot be read.
    Unreadable,
}

/// `GET /app/usage`: disk usage of the libraries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageResponse {
    /// The libraries.
    pub libraries: Vec<LibraryUsage>,
    /// Bytes of all libraries: models, garbage and downloads.
    pub total_bytes: u64,
}

/// Disk usage of a library. Shared blobs are counted once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub struct LibraryUsage {
    pub library: Library,
    /// Models, largest first.
    pub models: Vec<ModelUsage>,
    /// Bytes of all models.
    pub model_bytes: u64,
    /// Bytes that several models share.
    pub shared_bytes: u64,
    /// Bytes of blobs that no model uses.
    pub unreferenced_bytes: u64,
    pub unreferenced_files: u64,
    /// Bytes of partial downloads.
    pub partial_bytes: u64,
    pub partial_files: u64,
    /// Free bytes of the disk; `null` if the system does not report them.
    pub free_bytes: Option<u64>,
}

/// Disk usage of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// Name of the model.
    pub model: String,
    /// Bytes that no other model uses. A delete frees them.
    pub own_bytes: u64,
    /// Bytes that other models share.
    pub shared_bytes: u64,
    /// Number of missing blobs.
    pub missing: u64,
}
