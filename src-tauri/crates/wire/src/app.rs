//! Our own interface, `/app`: what only our own clients do. It needs the daemon's token.

use serde::{Deserialize, Serialize};

use crate::{KeepAlive, Timestamp};

/// `run/daemon.json`: how a client finds the daemon of its user. Only that user can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonFile {
    /// Process id, for people; whether the daemon lives is told by its lock.
    pub pid: u32,
    /// When it started.
    pub started_at: Timestamp,
    /// Where it listens, `127.0.0.1:11434` for instance; the first is the one to use.
    pub addresses: Vec<String>,
    /// Its version, `x.y.z`.
    pub version: String,
    /// What `/app` wants to see as `Authorization: Bearer`.
    pub token: String,
}

/// `GET /app/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the same facts as in `DaemonFile`, and two counts")]
pub struct StatusResponse {
    pub version: String,
    pub pid: u32,
    pub started_at: Timestamp,
    pub addresses: Vec<String>,
    /// Requests that are being answered, this one not counted.
    pub active_requests: u64,
    /// Models in memory.
    pub loaded_models: u64,
}

/// `POST /app/open`: makes a model file on this machine known until the daemon ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// Absolute path of a GGUF file.
    pub path: String,
}

/// The answer to [`OpenRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenResponse {
    /// The name by which `/api` knows the file from now on.
    pub model: String,
}

/// `POST /app/load`: brings a model into memory, where the next request finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRequest {
    /// The model's name.
    pub model: String,
    /// Load it even when memory looks too small for it.
    #[serde(default)]
    pub force: bool,
    /// How long it stays; the daemon's setting when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_alive: Option<KeepAlive>,
}
