//! A question to a public HTTP interface that answers with JSON, and that no credentials are sent to.

use reqwest::{StatusCode, Url};
use serde::de::DeserializeOwned;

use super::answer::Answer;
use super::exchange::place;
use super::transport::Transport;
use super::trouble::{distrust, trouble};
use crate::SourceError;

impl Transport {
    /// Gets what is at `url`, at most `cap_bytes` of it. Redirects are not followed.
    pub(crate) async fn json<T: DeserializeOwned>(&self, url: Url, cap_bytes: usize) -> Result<T, SourceError> {
        let host = place(&url);
        let broken = |reason: String| SourceError::Broken { host: host.clone(), reason, answered: false };
        let asked = tokio::time::timeout(self.answer_timeout, self.http.get(url).send()).await;
        let response = match asked {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                return Err(match distrust(&error) {
                    Some(distrust) => SourceError::Untrusted { host, distrust },
                    None => broken(trouble(&error)),
                });
            }
            Err(_) => return Err(broken("no answer came".to_owned())),
        };
        let mut answer = Answer {
            response,
            host: host.clone(),
            elsewhere: None,
            answer_timeout: self.answer_timeout,
            now: (self.clock)(),
        };
        if answer.status() != StatusCode::OK {
            return Err(answer.into_error().await);
        }
        let bytes = answer.whole(cap_bytes).await?;
        serde_json::from_slice(&bytes).map_err(|error| answer.refused(format!("its answer cannot be read: {error}")))
    }
}
