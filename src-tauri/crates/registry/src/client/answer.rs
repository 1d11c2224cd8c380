//! What a server's refusal means, and how much of its words is kept.
//!
//! Statuses become the variants of [`SourceError`]: whether it is worth another try is all that callers decide on.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};

use super::transport::root;
use crate::SourceError;

/// Most of a server's own words that an error repeats.
const MAX_WORDS_BYTES: usize = 1024;
/// Most characters of them: an error is a line, and a page of HTML says nothing in one.
const MAX_WORDS: usize = 200;
/// A server that names a later time than this is asked again then.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// An answer, and who gave it.
pub(crate) struct Answer {
    /// The answer itself.
    pub(crate) response: Response,
    /// The registry that was asked.
    pub(crate) host: String,
    /// The host that answered, where a redirect led to another.
    pub(crate) elsewhere: Option<String>,
    pub(super) answer_timeout: Duration,
    pub(super) now: SystemTime,
}

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// A header's text, when it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// Worth another try: what is wrong with the answer, said of whom it came from.
    pub(crate) fn broken(&self, reason: impl std::fmt::Display) -> SourceError {
        SourceError::Broken { host: self.host.clone(), reason: self.placed(reason), answered: true }
    }

    /// Worth another try: the answer ended before it was whole.
    pub(crate) fn cut(&self, reason: impl std::fmt::Display) -> SourceError {
        SourceError::Broken { host: self.host.clone(), reason: self.placed(reason), answered: false }
    }

    /// Not worth another try, because of what is in the answer.
    pub(crate) fn refused(&self, reason: impl std::fmt::Display) -> SourceError {
        SourceError::Refused { host: self.host.clone(), status: None, reason: self.placed(reason) }
    }

    /// Not worth another try, because the answer is a refusal.
    pub(crate) fn denied(&self, reason: impl std::fmt::Display) -> SourceError {
        let status = Some(self.status().as_u16());
        SourceError::Refused { host: self.host.clone(), status, reason: self.placed(reason) }
    }

    fn placed(&self, reason: impl std::fmt::Display) -> String {
        match &self.elsewhere {
            Some(host) => format!("{host}, where it sent us: {reason}"),
            None => reason.to_string(),
        }
    }

    /// The whole body, unless it is longer than `cap_bytes`.
    pub(crate) async fn whole(&mut self, cap_bytes: usize) -> Result<Bytes, SourceError> {
        let too_long = |answer: &Self| answer.refused(format!("the answer is longer than {cap_bytes} bytes"));
        if self.response.content_length().is_some_and(|length| length > cap_bytes as u64) {
            return Err(too_long(self));
        }
        let mut read = Vec::new();
        while let Some(more) = self.chunk().await? {
            if read.len() + more.len() > cap_bytes {
                return Err(too_long(self));
            }
            read.extend_from_slice(&more);
        }
        Ok(read.into())
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, SourceError> {
        match tokio::time::timeout(self.answer_timeout, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(self.cut(root(&error))),
            Err(_) => Err(self.cut("the answer stopped")),
        }
    }

    /// The error that this answer is; its status is none that the caller hoped for.
    pub(crate) async fn into_error(mut self) -> SourceError {
        let status = self.status();
        let retry_after = retry_after(self.response.headers(), self.now);
        let host = self.host.clone();
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => SourceError::Absent { host },
            StatusCode::TOO_MANY_REQUESTS => SourceError::Busy { host, retry_after },
            StatusCode::SERVICE_UNAVAILABLE if retry_after.is_some() => SourceError::Busy { host, retry_after },
            StatusCode::REQUEST_TIMEOUT => self.broken(status),
            _ if status.is_server_error() => {
                let words = self.words().await;
                self.broken(format!("{status}{words}"))
            }
            // Direct addresses are signed for a while. Where a new one was of no use either, that was said before.
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if self.elsewhere.is_some() => self.broken(status),
            _ if status.is_informational() || status.is_success() || status.is_redirection() => {
                self.broken(format!("unexpected answer {status}"))
            }
            _ => self.into_denial().await,
        }
    }

    /// Does a host refuse that a redirect led to?
    pub(crate) fn is_denied_elsewhere(&self) -> bool {
        self.elsewhere.is_some() && matches!(self.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    }

    /// The refusal that this answer is, in the server's words.
    pub(crate) async fn into_denial(mut self) -> SourceError {
        let words = self.words().await;
        self.denied(format!("{}{words}", self.status()))
    }

    /// What the server says about its refusal, as far as it can be printed, after a colon.
    async fn words(&mut self) -> String {
        let mut read = Vec::new();
        while read.len() < MAX_WORDS_BYTES
            && let Ok(Some(more)) = self.chunk().await
        {
            read.extend_from_slice(&more);
        }
        read.truncate(MAX_WORDS_BYTES);
        let text = String::from_utf8_lossy(&read);
        let printable: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        match printable.trim() {
            "" => String::new(),
            words => match words.char_indices().nth(MAX_WORDS) {
                Some((end, _)) => format!(": {}…", &words[..end]),
                None => format!(": {words}"),
            },
        }
    }
}

/// How long `Retry-After` asks to wait (RFC 9110 section 10.2.3): seconds, or a time. A time is taken relative to the
/// server's own `Date`, so that a wrong clock on either side does no harm.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let time = |text: &str| httpdate::parse_http_date(text).ok();
            let theirs = headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(time);
            time(text)?.duration_since(theirs.unwrap_or(now)).unwrap_or_default()
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}
