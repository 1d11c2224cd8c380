//! `GET /app/server`: addresses, clients and recent requests of the daemon. Never prompts or answers.

use serde::{Deserialize, Serialize};

use crate::{Timestamp, Truncated};

/// State of the server. `GET /app/server/events` sends one per line after each change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerResponse {
    /// Version, `x.y.z`.
    pub version: String,
    /// Start time.
    pub started_at: Timestamp,
    /// Listening addresses, for example `127.0.0.1:11434`.
    pub addresses: Vec<String>,
    /// Address for other programs of this machine, for example `http://127.0.0.1:11434`.
    pub url: String,
    /// Whether other machines can connect.
    pub lan: bool,
    /// Whether other machines may pull models from it.
    pub share: bool,
    /// Web origins besides local ones that may use `/api`.
    pub origins: Vec<String>,
    /// Clients, most recent first.
    pub clients: Vec<ServerClient>,
    /// Recent requests, newest first. They are only in memory.
    pub requests: Vec<LoggedRequest>,
}

/// `GET /app/log?lines=N`: the end of the daemon's log, which never has prompts or answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogResponse {
    /// Path of the newest file.
    pub path: String,
    /// The last lines, oldest first.
    pub lines: Vec<String>,
}

/// A client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerClient {
    /// Name from its user agent, without a version; `cairn` for Cairn's own clients.
    pub name: String,
    /// IP address.
    pub address: String,
    /// Whether it is one of Cairn's own clients.
    pub own: bool,
    /// Time of the last request.
    pub last_seen_at: Timestamp,
    /// Number of recent requests.
    pub requests: u64,
}

/// A request and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoggedRequest {
    /// Id; later requests have larger ids.
    pub id: u64,
    /// Time of arrival.
    pub at: Timestamp,
    /// The client, as in [`ServerClient`].
    pub client: String,
    /// The client's IP address.
    pub address: String,
    /// Name of the client's API key, if it has a valid one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `GET`, `POST`, ...
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Status of the response.
    pub status: u16,
    /// Whether the request is in progress.
    pub running: bool,
    /// Duration so far.
    pub ms: u64,
    /// The requested model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Time to the first token, for inference requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<u64>,
    /// Tokens of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Prompt tokens that were found in the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Tokens of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_tokens: Option<u64>,
    /// Speed of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    /// Dropped tokens and messages, if the context was full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
}
