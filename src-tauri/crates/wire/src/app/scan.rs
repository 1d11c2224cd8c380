//! `POST /app/scan`: finds models of other apps on the daemon's machine.

use serde::{Deserialize, Serialize};

use super::SkippedFile;

/// `POST /app/scan`. The response is a stream of [`ScanLine`]s.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct ScanRequest {
    /// Absolute paths of folders to scan.
    pub folders: Vec<String>,
    /// Whether to scan the folders of other apps too.
    pub apps: bool,
    /// Whether to read files completely, to compare their digests.
    pub digests: bool,
}

/// Progress of a scan. The last line is [`ScanLine::Done`] or an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[expect(missing_docs, reason = "bytes completed and in total")]
pub enum ScanLine {
    /// Files are read for their digests.
    Hashing { completed: u64, total: u64 },
    /// The scan is complete.
    Done(ScannedModels),
}

/// Result of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScannedModels {
    /// Models, projectors, adapters and broken files.
    pub models: Vec<FoundModel>,
    /// Folders that were scanned.
    pub folders: Vec<ScannedFolder>,
    /// Folders that could not be scanned.
    pub skipped: Vec<SkippedFile>,
    /// First folder that was skipped because it is too deep or the scan has too many entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// A scanned folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScannedFolder {
    /// The app; `folder` for a requested folder.
    pub app: String,
    /// Path of the folder.
    pub path: String,
}

/// A file that a scan found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundModel {
    /// Name that an import would use.
    pub name: String,
    /// Bytes of all files.
    pub size: u64,
    /// The app that stores it; `folder` for a requested folder.
    pub app: String,
    /// Path of the file; the first part of a split model.
    pub path: String,
    /// Number of files.
    pub parts: u64,
    /// Relation to the libraries.
    pub state: FoundState,
    /// Model in the libraries that has, or may have, the same contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why the file cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// SHA-256, `sha256:...`, if available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Architecture; empty if unknown.
    pub family: String,
    /// Number of parameters, for example `3.2B`.
    pub parameter_size: String,
    /// Quantization, for example `Q4_K_M`.
    pub quantization_level: String,
}

/// Relation of a found file to the libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundState {
    /// A model that can be imported.
    New,
    /// A library has the same contents.
    Here,
    /// A library has a model of the same size.
    MaybeHere,
    /// A projector, which encodes images for a model.
    Projector,
    /// An adapter.
    Adapter,
    /// A file that cannot be read.
    Broken,
}
