//! `GET /app/server`: where the daemon is reached, by whom, and what was asked lately. Never what was said.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// The daemon as a server. Each line of `GET /app/server/events` is one too, whenever something changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerResponse {
    /// Its version, `x.y.z`.
    pub version: String,
    /// When it started.
    pub started_at: Timestamp,
    /// Where it listens, `127.0.0.1:11434` for instance.
    pub addresses: Vec<String>,
    /// What other programs of this machine are given, `http://127.0.0.1:11434` for instance.
    pub url: String,
    /// Whether other machines reach it.
    pub lan: bool,
    /// Whether other machines may pull models from it.
    pub share: bool,
    /// Web origins besides local ones that may use `/api`.
    pub origins: Vec<String>,
    /// Who asked something, the last one first.
    pub clients: Vec<ServerClient>,
    /// The last requests, the newest first. Kept in memory only.
    pub requests: Vec<LoggedRequest>,
}

/// A program that asked something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerClient {
    /// What it calls itself, without a version; `cairn` is one of our own.
    pub name: String,
    /// Where it is, an IP address.
    pub address: String,
    /// Whether it is one of our own.
    pub own: bool,
    /// When it asked last.
    pub last_seen_at: Timestamp,
    /// How often it asked, as far back as is known.
    pub requests: u64,
}

/// A request and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoggedRequest {
    /// Tells it from others; later ones have larger numbers.
    pub id: u64,
    /// When it came.
    pub at: Timestamp,
    /// Who asked, as in [`ServerClient`].
    pub client: String,
    /// The client's IP address.
    pub address: String,
    /// `GET`, `POST`, ...
    pub method: String,
    /// Without the query.
    pub path: String,
    /// The answer's.
    pub status: u16,
    /// Whether it is still being answered.
    pub running: bool,
    /// How long the answer took, or has taken so far.
    pub ms: u64,
    /// The model that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// From the request to the first piece of the answer, where a model was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<u64>,
    /// Tokens of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Of these, tokens that need not be computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Tokens of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_tokens: Option<u64>,
    /// Tokens of the answer in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
}
