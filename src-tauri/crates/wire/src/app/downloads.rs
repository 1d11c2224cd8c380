//! `/app/downloads`: downloads of models.

use serde::{Deserialize, Serialize};

use crate::ErrorBody;

/// `GET /app/downloads`, and each line of `GET /app/downloads/events`, which sends one after each change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadsResponse {
    /// Downloads in the order of the queue.
    pub downloads: Vec<Download>,
    /// Speed limit of all downloads together; absent for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_second: Option<u64>,
}

/// A download of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Download {
    /// Id, valid while this daemon runs.
    pub id: u64,
    /// The model.
    pub model: String,
    /// State of the download.
    pub state: DownloadState,
    /// Bytes of the model; 0 until its manifest is downloaded.
    pub total: u64,
    /// Bytes completed.
    pub completed: u64,
    /// Speed over the last seconds.
    pub bytes_per_second: u64,
    /// Remaining time at this speed; absent if the speed is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
    /// Bytes on disk that a discard would free.
    pub held_bytes: u64,
    /// Host of the current source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The last error that was handled by a retry or another source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Why the download failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
    /// Whether the download continues without a client.
    pub detached: bool,
}

/// State of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DownloadState {
    /// Waits in the queue.
    Queued,
    /// In progress.
    Running,
    /// Paused by the user, also after a restart of the daemon.
    Paused,
    /// Cancelled by the user, or its client disconnected.
    Stopped,
    /// Failed.
    Failed,
    /// Complete.
    Done,
}

/// `POST /app/downloads`: downloads a model, whether or not a client follows it. The response is a [`Download`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct DownloadRequest {
    /// The model's name.
    pub model: String,
    /// Whether plain `http` is allowed.
    #[serde(default)]
    pub insecure: bool,
    /// Addresses of mirrors to try before the registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Whether the model is downloaded even if this version cannot run it, for example to share it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// `POST /app/downloads/resume`. The response is a [`DownloadsResponse`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct ResumeRequest {
    /// An id, or the name of the model.
    pub download: String,
    /// Whether the model is downloaded even if this version cannot run it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// `POST /app/downloads/pause`, `cancel` and `discard`. The response is a [`DownloadsResponse`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadChoice {
    /// An id, or the name of the model.
    pub download: String,
}

/// `POST /app/downloads/reorder`. The response is a [`DownloadsResponse`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct ReorderRequest {
    /// An id, or the name of the model.
    pub download: String,
    /// New position in the queue, from 0.
    pub position: usize,
}

/// `POST /app/downloads/cap`. The response is a [`DownloadsResponse`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct CapRequest {
    /// Speed limit of all downloads together; absent or 0 for no limit.
    #[serde(default)]
    pub bytes_per_second: Option<u64>,
}
