//! Detection of a server's API.

use serde::{Deserialize, Serialize};

use crate::client::UpstreamClient;
use crate::failure::Failure;
use crate::models;

/// What a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Another Cairn, with Ollama's API and OpenAI's.
    Cairn,
    /// Ollama, with its own API and OpenAI's.
    Ollama,
    /// Any server with the API of OpenAI: vLLM, SGLang, llama-server and others.
    OpenAi,
}

impl Kind {
    /// Whether the server has Ollama's API. All kinds have OpenAI's.
    #[must_use]
    pub fn has_ollama_api(self) -> bool {
        self != Self::OpenAi
    }

    /// The kind as a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cairn => "cairn",
            Self::Ollama => "ollama",
            Self::OpenAi => "openai",
        }
    }
}

/// Finds out what a server is. Only a server with `/api/version` and `/api/tags` counts as Ollama: some servers of OpenAI's
/// API have parts of Ollama's.
///
/// # Errors
/// If the server has neither API, or cannot be reached.
pub async fn detect(client: &UpstreamClient) -> Result<Kind, Failure> {
    #[derive(Deserialize)]
    struct Version {
        #[serde(rename = "version")]
        _version: String,
        cairn: Option<String>,
    }
    match client.get::<Version>("/api/version").await {
        Ok(version) => {
            let kind = if version.cairn.is_some() { Kind::Cairn } else { Kind::Ollama };
            if models::list(client, kind).await.is_ok() {
                return Ok(kind);
            }
        }
        Err(failure @ (Failure::Connect { .. } | Failure::Timeout { .. } | Failure::Redirect)) => return Err(failure),
        Err(_) => {}
    }
    models::list(client, Kind::OpenAi).await.map(|_| Kind::OpenAi)
}
