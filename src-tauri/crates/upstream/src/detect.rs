//! Detection of a server's API.

use serde::Deserialize;

use crate::client::UpstreamClient;
use crate::failure::Failure;
use crate::kind::Kind;
use crate::models;

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
