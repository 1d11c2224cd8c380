//! `/app/downloads`: the models that are on their way here, and what their user wants of them.

use serde::{Deserialize, Serialize};

use crate::ErrorBody;

/// `GET /app/downloads`, and each line of `GET /app/downloads/events`, which has one whenever something changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadsResponse {
    /// In the order in which they run.
    pub downloads: Vec<Download>,
    /// The most bytes per second of all together; absent where there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_second: Option<u64>,
}

/// A model that is on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Download {
    /// Names it while this daemon runs.
    pub id: u64,
    /// The model.
    pub model: String,
    /// What is done for it.
    pub state: DownloadState,
    /// Bytes of the model; 0 while its manifest is not here.
    pub total: u64,
    /// Bytes of it that are here.
    pub completed: u64,
    /// Over the last seconds.
    pub bytes_per_second: u64,
    /// At that speed; absent while nothing comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
    /// Bytes of the disk that discarding it would free.
    pub held_bytes: u64,
    /// The host that bytes come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What went wrong last and was got round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
    /// It goes on when nobody watches.
    pub detached: bool,
}

/// What is done for a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DownloadState {
    /// It waits for its turn.
    Queued,
    /// Bytes come, or are asked for.
    Running,
    /// Its user paused it; it stays so when the daemon starts anew.
    Paused,
    /// Whoever wanted it went away, or its user stopped it.
    Stopped,
    /// Something is in the way.
    Failed,
    /// The model is here.
    Done,
}

/// `POST /app/downloads`: fetches a model whether or not anybody watches. Answered by a [`Download`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadRequest {
    /// The model's name.
    pub model: String,
    /// Whether the registry may be asked over plain `http`.
    #[serde(default)]
    pub insecure: bool,
    /// Addresses of mirrors to take contents from before the registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
}

/// `POST /app/downloads/pause`, `resume`, `cancel` and `discard`: which one. Answered by a [`DownloadsResponse`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownloadChoice {
    /// An id, or the name of the model.
    pub download: String,
}

/// `POST /app/downloads/reorder`. Answered by a [`DownloadsResponse`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReorderRequest {
    /// An id, or the name of the model.
    pub download: String,
    /// Its place among all, counted from 0.
    pub position: usize,
}

/// `POST /app/downloads/cap`. Answered by a [`DownloadsResponse`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapRequest {
    /// The most bytes per second of all downloads together; none, or 0, for no limit.
    #[serde(default)]
    pub bytes_per_second: Option<u64>,
}
