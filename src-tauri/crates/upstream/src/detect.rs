//! Detection of a server's API.

use serde::Deserialize;

use crate::client::UpstreamClient;
use crate::failure::Failure;
use crate::models;
use crate::server_kind::ServerKind;

/// What a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detected {
    /// Its API.
    pub kind: ServerKind,
    /// Id of its process, if it is a Cairn.
    pub instance: Option<String>,
}

/// Finds out what a server is. Only a server with `/api/version` and `/api/tags` counts as Ollama: some servers of OpenAI's
/// API have parts of Ollama's.
///
/// # Errors
/// If the server has neither API, or cannot be reached.
pub async fn detect(client: &UpstreamClient) -> Result<Detected, Failure> {
    #[derive(Deserialize)]
    struct Version {
        #[serde(rename = "version")]
        _version: String,
        cairn: Option<String>,
        instance: Option<String>,
    }
    let mut instance = None;
    match client.get::<Version>("/api/version").await {
        Ok(version) => {
            let kind = if version.cairn.is_some() { ServerKind::Cairn } else { ServerKind::Ollama };
            instance = version.instance;
            if models::list(client, kind).await.is_ok() {
                return Ok(Detected { kind, instance });
            }
        }
        Err(failure @ (Failure::Connect { .. } | Failure::Timeout { .. } | Failure::Redirect)) => return Err(failure),
        Err(_) => {}
    }
    let kind = ServerKind::OpenAi;
    models::list(client, kind).await.map(|_| Detected { kind, instance })
}
