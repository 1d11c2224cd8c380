//! HTTP responses, and their mapping to [`SourceError`].
//!
//! The variant states whether a retry can succeed.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

use super::transport_error::root_cause;
use crate::SourceError;

/// Maximum bytes of a response body that are read for an error message.
const MAX_ERROR_TEXT_BYTES: usize = 1024;
/// Maximum characters of the server's message in an error.
const MAX_ERROR_TEXT_CHARS: usize = 200;
/// Upper limit for `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A response and its origin.
pub(crate) struct RegistryResponse {
    /// The response.
    pub(crate) inner: reqwest::Response,
    /// The host of the registry.
    pub(crate) host: String,
    /// The host that responded, if a redirect led to another host.
    pub(crate) redirect_host: Option<String>,
    pub(super) response_timeout: Duration,
    pub(super) now: SystemTime,
}

impl RegistryResponse {
    pub(crate) fn status(&self) -> StatusCode {
        self.inner.status()
    }

    /// The value of a header, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.inner.headers().get(name)?.to_str().ok()
    }

    /// A retryable error: the response is unusable.
    pub(crate) fn broken(&self, reason: impl std::fmt::Display) -> SourceError {
        SourceError::Broken { host: self.host.clone(), reason: self.with_redirect_host(reason), answered: true }
    }

    /// A retryable error: the response was incomplete.
    pub(crate) fn truncated(&self, reason: impl std::fmt::Display) -> SourceError {
        SourceError::Broken { host: self.host.clone(), reason: self.with_redirect_host(reason), answered: false }
    }

    /// A permanent error: the content of the response is invalid.
    pub(crate) fn refused(&self, reason: impl std::fmt::Display) -> SourceError {
        SourceError::Refused { host: self.host.clone(), status: None, reason: self.with_redirect_host(reason) }
    }

    /// A permanent error: the server refused with this status.
    pub(crate) fn denied(&self, reason: impl std::fmt::Display) -> SourceError {
        let status = Some(self.status().as_u16());
        SourceError::Refused { host: self.host.clone(), status, reason: self.with_redirect_host(reason) }
    }

    fn with_redirect_host(&self, reason: impl std::fmt::Display) -> String {
        match &self.redirect_host {
            Some(host) => format!("{host} (redirect target): {reason}"),
            None => reason.to_string(),
        }
    }

    /// Reads the whole body of at most `max_bytes` bytes.
    pub(crate) async fn read_to_end(&mut self, max_bytes: usize) -> Result<Bytes, SourceError> {
        let too_long = |response: &Self| response.refused(format!("the response is longer than {max_bytes} bytes"));
        if self.inner.content_length().is_some_and(|length| length > max_bytes as u64) {
            return Err(too_long(self));
        }
        let mut read = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if read.len() + chunk.len() > max_bytes {
                return Err(too_long(self));
            }
            read.extend_from_slice(&chunk);
        }
        Ok(read.into())
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, SourceError> {
        match tokio::time::timeout(self.response_timeout, self.inner.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(self.truncated(root_cause(&error))),
            Err(_) => Err(self.truncated("timeout while reading the response")),
        }
    }

    /// Converts a response with an unexpected status to an error.
    pub(crate) async fn into_error(mut self) -> SourceError {
        let status = self.status();
        let retry_after = retry_after(self.inner.headers(), self.now);
        let host = self.host.clone();
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => SourceError::Absent { host },
            StatusCode::TOO_MANY_REQUESTS => SourceError::Busy { host, retry_after },
            StatusCode::SERVICE_UNAVAILABLE if retry_after.is_some() => SourceError::Busy { host, retry_after },
            StatusCode::REQUEST_TIMEOUT => self.broken(status),
            _ if status.is_server_error() => {
                let text = self.error_text().await;
                self.broken(format!("{status}{text}"))
            }
            // Redirect targets are signed URLs that expire. `Registry::execute` handles a second refusal.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if self.redirect_host.is_some() => self.broken(status),
            _ if status.is_informational() || status.is_success() || status.is_redirection() => {
                self.broken(format!("unexpected status {status}"))
            }
            _ => self.into_refused().await,
        }
    }

    /// Whether the target of a redirect refused the request.
    pub(crate) fn is_denied_by_redirect_host(&self) -> bool {
        self.redirect_host.is_some() && matches!(self.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    }

    /// Converts the response to a refusal with the server's message.
    pub(crate) async fn into_refused(mut self) -> SourceError {
        let text = self.error_text().await;
        self.denied(format!("{}{text}", self.status()))
    }

    /// The server's message, without control characters, prefixed by a colon. Empty if there is none.
    async fn error_text(&mut self) -> String {
        let mut read = Vec::new();
        while read.len() < MAX_ERROR_TEXT_BYTES
            && let Ok(Some(chunk)) = self.chunk().await
        {
            read.extend_from_slice(&chunk);
        }
        read.truncate(MAX_ERROR_TEXT_BYTES);
        let text = String::from_utf8_lossy(&read);
        let printable: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        match printable.trim() {
            "" => String::new(),
            text => match text.char_indices().nth(MAX_ERROR_TEXT_CHARS) {
                Some((end, _)) => format!(": {}…", &text[..end]),
                None => format!(": {text}"),
            },
        }
    }
}

/// Parses `Retry-After` (RFC 9110 section 10.2.3): seconds, or a date. A date is compared with the server's own `Date`
/// header, so that differing clocks do not matter.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let time = |text: &str| httpdate::parse_http_date(text).ok();
            let server_date = headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(time);
            time(text)?.duration_since(server_date.unwrap_or(now)).unwrap_or_default()
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}
