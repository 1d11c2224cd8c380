//! `POST /app/gc` and `POST /app/verify`: garbage collection and verification of libraries.

use serde::{Deserialize, Serialize};

use super::SkippedFile;

/// `POST /app/gc`: removes garbage from the daemon's library.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct GcRequest {
    /// Only report.
    pub dry_run: bool,
    /// Remove partial downloads of other programs too.
    pub partials: bool,
}

/// Response to [`GcRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcResponse {
    /// Whether nothing was removed because of `dry_run`.
    pub dry_run: bool,
    /// Bytes that were or would be freed.
    pub freed_bytes: u64,
    /// Files that were or would be removed.
    pub removed: Vec<LeftoverFile>,
    /// Garbage that is kept.
    pub kept: Vec<LeftoverFile>,
}

/// A garbage file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftoverFile {
    /// Path of the file.
    pub path: String,
    /// Bytes on disk.
    pub size: u64,
    /// Kind of the file.
    pub kind: LeftoverKind,
    /// Whether the file is younger than an hour, so that a program may be using it.
    pub young: bool,
}

/// Kind of a garbage file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftoverKind {
    /// A blob that no model uses.
    Unreferenced,
    /// A partial download.
    Partial,
}

/// `POST /app/verify`: reads blobs and compares them with their digests. The response is a stream of [`VerifyLine`]s.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct VerifyRequest {
    /// Names of models; empty for all blobs of all libraries.
    pub models: Vec<String>,
    /// Remove damaged blobs of the daemon's library, so that the next pull downloads them again.
    pub discard: bool,
}

/// Progress of a check. The last line is [`VerifyLine::Done`] or an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[expect(missing_docs, reason = "bytes completed and in total")]
pub enum VerifyLine {
    /// Blobs are read.
    Hashing { completed: u64, total: u64 },
    /// The check is complete.
    Done(VerifiedModels),
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedModels {
    /// Number of models.
    pub models: u64,
    /// Number of blobs. Shared blobs are counted once.
    pub contents: u64,
    /// Bytes of all blobs.
    pub bytes: u64,
    /// Damaged blobs.
    pub flawed: Vec<FlawedContents>,
    /// Unreadable manifests.
    pub skipped: Vec<SkippedFile>,
}

/// A damaged blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlawedContents {
    /// Digest, `sha256:...`.
    pub digest: String,
    /// Purpose, for example `model`; empty if no model uses the blob.
    pub kind: String,
    /// Kind of the defect.
    pub flaw: FlawKind,
    /// Description of the defect, with numbers.
    pub reason: String,
    /// Models that use the blob.
    pub models: Vec<String>,
    /// Root of the library.
    pub library: String,
    /// Whether the library is the daemon's own.
    pub own: bool,
    /// Whether the blob was removed.
    pub discarded: bool,
}

/// Kind of a blob's defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlawKind {
    /// The blob is missing.
    Missing,
    /// The size differs from the manifest.
    Length,
    /// The contents differ from the digest.
    Damaged,
    /// The daemon has no permission to read the blob.
    Unreadable,
}
