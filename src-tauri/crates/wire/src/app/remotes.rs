//! `/app/remotes`: other servers with models that the daemon serves. Responses never have API keys.

use serde::{Deserialize, Serialize};

use crate::ErrorBody;

/// `POST /app/remotes`: finds out what a server is, and stores it as a remote.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct AddRemoteRequest {
    /// Name of the remote.
    pub name: String,
    /// Address of the server, with or without `/v1`.
    pub url: String,
    /// API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether the key may be sent over plain HTTP to another machine.
    #[serde(default)]
    pub insecure: bool,
}

/// Omits the key.
impl std::fmt::Debug for AddRemoteRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddRemoteRequest").field("name", &self.name).field("url", &self.url).finish_non_exhaustive()
    }
}

/// `POST /app/remotes/remove`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "a JSON object")]
pub struct RemoveRemoteRequest {
    /// Name of the remote.
    pub name: String,
}

/// `POST /app/remotes/check`: checks remotes now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a JSON object")]
pub struct CheckRemotesRequest {
    /// Name of one remote; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Response of all paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemotesResponse {
    /// Remotes in the order of their names.
    pub remotes: Vec<Remote>,
}

/// A remote and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// Its name.
    pub name: String,
    /// Address of its server.
    pub url: String,
    /// `cairn`, `ollama` or `openai`.
    pub kind: String,
    /// Whether it has an API key.
    pub has_key: bool,
    /// Its state.
    pub state: RemoteState,
    /// Why it is not available, or gets no requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
    /// How long it took to list its models in the last check, in milliseconds; absent if it did not list them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
    /// Names of its models.
    pub models: Vec<String>,
    /// Those of them that a local model of the same name hides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_models: Vec<String>,
    /// Requests in progress.
    pub outstanding: u64,
    /// Requests since the start of the daemon.
    pub requests: u64,
    /// Those of them that failed because of the remote.
    pub failures: u64,
    /// Prompt tokens of complete answers.
    pub prompt_tokens: u64,
    /// Prompt tokens that the remote reported as cached.
    pub cached_tokens: u64,
    /// Answer tokens.
    pub answer_tokens: u64,
}

/// State of a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteState {
    /// It was not checked yet.
    Unknown,
    /// It listed its models.
    Up,
    /// It did not list its models.
    Down,
    /// It failed repeatedly and gets no requests for a while.
    Paused,
}
