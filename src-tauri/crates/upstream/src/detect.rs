//! Detection of a server's API.

use serde::Deserialize;

use crate::client::UpstreamClient;
use crate::failure::Failure;
use crate::models;
use crate::server_kind::ServerKind;

/// Finds out what a server is. Only a server with `/api/version` and `/api/tags` counts as Ollama: some servers of OpenAI's
/// API have parts of Ollama's.
///
/// # Errors
/// If the server has neither API, or cannot be reached.
pub async fn detect(client: &UpstreamClient) -> Result<ServerKind, Failure> {
    #[derive(Deserialize)]
    struct Version {
        #[serde(rename = "version")]
        _version: String,
        cairn: Option<String>,
    }
    match client.get::<Version>("/api/version").await {
        Ok(version) => {
            let kind = if version.cairn.is_some() { ServerKind::Cairn } else { ServerKind::Ollama };
            if models::list(client, kind).await.is_ok() {
                return Ok(kind);
            }
        }
        Err(failure @ (Failure::Connect { .. } | Failure::Timeout { .. } | Failure::Redirect)) => return Err(failure),
        Err(_) => {}
    }
    models::list(client, ServerKind::OpenAi).await.map(|_| ServerKind::OpenAi)
}
