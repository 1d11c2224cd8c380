//! `POST /app/scan`: the models that other apps keep on the daemon's machine.

use serde::{Deserialize, Serialize};

use super::SkippedFile;

/// `POST /app/scan`. Answered by [`ScanLine`]s.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScanRequest {
    /// Folders to look through, by their absolute paths.
    pub folders: Vec<String>,
    /// Look where other apps keep their models too.
    pub apps: bool,
    /// Read the files, to tell which contents are here.
    pub digests: bool,
}

/// How far a scan has come; the last one is [`ScanLine::Done`], or an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[expect(missing_docs, reason = "bytes, done and in all")]
pub enum ScanLine {
    /// Files are read.
    Hashing { completed: u64, total: u64 },
    /// All that was to be looked through was.
    Done(ScannedModels),
}

/// What a scan found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScannedModels {
    /// Models, and what goes with them.
    pub models: Vec<FoundModel>,
    /// Folders that are there and were looked through.
    pub folders: Vec<ScannedFolder>,
    /// Folders that could not be looked through.
    pub skipped: Vec<SkippedFile>,
    /// A folder beyond which nothing was looked at, because it is too deep or there is too much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
}

/// A folder in which an app keeps models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScannedFolder {
    /// Which app; `folder` for one that was named.
    pub app: String,
    /// Where it is.
    pub path: String,
}

/// A model that another app keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundModel {
    /// What an import would call it.
    pub name: String,
    /// Bytes of its files.
    pub size: u64,
    /// Who keeps it; `folder` for one in a folder that was named.
    pub app: String,
    /// Its file; the first of them where there are several.
    pub path: String,
    /// How many files it has.
    pub parts: u64,
    /// What it is to us.
    pub state: FoundState,
    /// Our model that has the same contents, or may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its SHA-256, `sha256:...`, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Its architecture; empty where that is not known.
    pub family: String,
    /// Its size for people, `3.2B` for instance.
    pub parameter_size: String,
    /// Its quantisation, `Q4_K_M` for instance.
    pub quantization_level: String,
}

/// What a file is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundState {
    /// A model that could be imported.
    New,
    /// Its contents are here.
    Here,
    /// It is as long as contents that are here.
    MaybeHere,
    /// What makes pictures readable for a model.
    Projector,
    /// Changes to the weights of a model.
    Adapter,
    /// Nothing that can be read.
    Broken,
}
