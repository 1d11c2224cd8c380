//! `POST /app/gc` and `POST /app/verify`: what keeps libraries small and sound.

use serde::{Deserialize, Serialize};

use super::SkippedFile;

/// `POST /app/gc`: removes files of the daemon's library that nobody needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GcRequest {
    /// Only tell.
    pub dry_run: bool,
    /// Remove what is left of downloads by other programs too.
    pub partials: bool,
}

/// The answer to [`GcRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcResponse {
    /// Nothing was removed: this is what would be.
    pub dry_run: bool,
    /// Bytes that are free now, or would be.
    pub freed_bytes: u64,
    /// Files that were removed, or would be.
    pub removed: Vec<LeftoverFile>,
    /// Files that nobody needs and that stay.
    pub kept: Vec<LeftoverFile>,
}

/// A file that nobody needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftoverFile {
    /// Where it is.
    pub path: String,
    /// Bytes of it on the disk.
    pub size: u64,
    /// What it is.
    pub kind: LeftoverKind,
    /// Whether it is younger than an hour, so that a program may be about to use it.
    pub young: bool,
}

/// Kinds of files that nobody needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftoverKind {
    /// Contents that no model has.
    Unreferenced,
    /// What is left of a download.
    Partial,
}

/// `POST /app/verify`: reads the contents of models, and tells which are not what their names say. Answered by
/// [`VerifyLine`]s.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerifyRequest {
    /// Names of models; none means everything that the libraries hold.
    pub models: Vec<String>,
    /// Remove damaged contents of the daemon's own library, so that the next pull fetches them anew.
    pub discard: bool,
}

/// How far a check has come; the last one is [`VerifyLine::Done`], or an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[expect(missing_docs, reason = "bytes, done and in all")]
pub enum VerifyLine {
    /// Contents are read.
    Hashing { completed: u64, total: u64 },
    /// All have been.
    Done(VerifiedModels),
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedModels {
    /// How many models were looked at.
    pub models: u64,
    /// How many contents they have together; what several have is counted once.
    pub contents: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Those that are not what they should be.
    pub flawed: Vec<FlawedContents>,
    /// Manifests that cannot be read.
    pub skipped: Vec<SkippedFile>,
}

/// Contents that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlawedContents {
    /// Their name, `sha256:...`.
    pub digest: String,
    /// What they are for, `model` for instance; empty when no model has them.
    pub kind: String,
    /// What is wrong with them.
    pub flaw: FlawKind,
    /// The same in words, with the numbers.
    pub reason: String,
    /// Models that have them.
    pub models: Vec<String>,
    /// The library that has them.
    pub library: String,
    /// Whether that is the daemon's own, which it may change.
    pub own: bool,
    /// Whether they were removed.
    pub discarded: bool,
}

/// What can be wrong with contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlawKind {
    /// They are not there.
    Missing,
    /// There are more or fewer bytes than a manifest says.
    Length,
    /// The bytes are others than the name says.
    Damaged,
    /// The system does not let the daemon read them.
    Unreadable,
}
