//! Requests to public JSON APIs, without credentials.

use reqwest::{StatusCode, Url};
use serde::de::DeserializeOwned;

use super::address::host_and_port;
use super::failure::{failure_reason, tls_error};
use super::response::RegistryResponse;
use super::transport::Transport;
use crate::SourceError;

impl Transport {
    /// Gets and parses the JSON document at `url`, of at most `max_bytes` bytes. Redirects are not followed.
    pub(crate) async fn json<T: DeserializeOwned>(&self, url: Url, max_bytes: usize) -> Result<T, SourceError> {
        let host = host_and_port(&url);
        let broken = |reason: String| SourceError::Broken { host: host.clone(), reason, answered: false };
        let result = tokio::time::timeout(self.response_timeout, self.http.get(url).send()).await;
        let response = match result {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                return Err(match tls_error(&error) {
                    Some(cause) => SourceError::Untrusted { host, cause },
                    None => broken(failure_reason(&error)),
                });
            }
            Err(_) => return Err(broken("no response in time".to_owned())),
        };
        let mut response = RegistryResponse {
            inner: response,
            host: host.clone(),
            redirect_host: None,
            response_timeout: self.response_timeout,
            now: (self.clock)(),
        };
        if response.status() != StatusCode::OK {
            return Err(response.into_error().await);
        }
        let bytes = response.read_to_end(max_bytes).await?;
        serde_json::from_slice(&bytes).map_err(|error| response.refused(format!("cannot parse its response: {error}")))
    }
}
