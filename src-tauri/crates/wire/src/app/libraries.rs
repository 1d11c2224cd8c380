//! `GET /app/libraries` and `GET /app/usage`: the libraries of models, and what they take.

use serde::{Deserialize, Serialize};

/// `GET /app/libraries`: all libraries, the one that is written first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibrariesResponse {
    /// One row each.
    pub libraries: Vec<Library>,
}

/// A library of models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// Its folder.
    pub path: String,
    /// What it is to its user.
    pub role: LibraryRole,
    /// Whether it is there.
    pub state: LibraryState,
    /// Why it is not there, or cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether its absence is news: our own library is made with its first model.
    pub missed: bool,
    /// Models in it.
    pub models: u64,
    /// Manifests in it that cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedFile>,
}

/// A manifest that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct SkippedFile {
    pub path: String,
    pub reason: String,
}

/// What a library is to its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LibraryRole {
    /// New models go there.
    Own,
    /// The user named it; it is only read.
    Linked,
    /// It is Ollama's; it is only read.
    Found,
}

/// Whether a library is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LibraryState {
    /// It is.
    Present,
    /// It is not; its disk may not be mounted.
    Absent,
    /// It is, and cannot be read.
    Unreadable,
}

/// `GET /app/usage`: what the libraries take on their disks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageResponse {
    /// One row each.
    pub libraries: Vec<LibraryUsage>,
    /// Bytes of all of them together: models, what nobody needs, downloads.
    pub total_bytes: u64,
}

/// What a library takes. Contents that several of its models have are counted once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LibraryUsage {
    pub library: Library,
    /// The largest first.
    pub models: Vec<ModelUsage>,
    /// Bytes of all that models have.
    pub model_bytes: u64,
    /// Those of them that more than one model has.
    pub shared_bytes: u64,
    /// Contents that no model has.
    pub unreferenced_bytes: u64,
    pub unreferenced_files: u64,
    /// Downloads under way, or broken off.
    pub partial_bytes: u64,
    pub partial_files: u64,
    /// Bytes that are free on its disk; `null` where that cannot be told.
    pub free_bytes: Option<u64>,
}

/// What a model takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// Its name.
    pub model: String,
    /// Bytes that no other model has: what deleting it frees.
    pub own_bytes: u64,
    /// Bytes that other models have too.
    pub shared_bytes: u64,
    /// Contents of it that are not there.
    pub missing: u64,
}
