//! Ranges of a blob out of a registry.
//!
//! Every opening goes through the registry anew, because the direct addresses that it redirects to are signed for minutes
//! only. What a server says about its answer is held against what was asked, and what it then sends against what it said;
//! the bytes themselves are checked by the download.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cairn_store::{Digest, ModelRef};
use reqwest::header::{CONTENT_RANGE, ETAG};
use reqwest::{Method, StatusCode};

use super::answer::Answer;
use super::exchange::Question;
use super::registry::{Registry, scope};
use super::transport::root;
use crate::{BlobSource, Body, Opened, Pending, SourceError};

/// A model's repository as a source of blobs.
struct Repository {
    registry: Registry,
    name: ModelRef,
    /// It is nobody whom we would sign in to or follow anywhere.
    stranger: bool,
    /// The `ETag` that each host gave a blob. It changes when the file behind the address does.
    etags: Mutex<HashMap<(Digest, Option<String>), String>>,
}

impl Registry {
    /// The blobs of a name's repository.
    #[must_use]
    pub fn blobs(&self, name: &ModelRef) -> Arc<dyn BlobSource> {
        Arc::new(Repository { registry: self.clone(), name: name.clone(), stranger: false, etags: Mutex::default() })
    }

    /// The same where nobody chose the server: no challenge of it is answered and no redirect followed.
    #[must_use]
    pub fn blobs_of_stranger(&self, name: &ModelRef) -> Arc<dyn BlobSource> {
        Arc::new(Repository { registry: self.clone(), name: name.clone(), stranger: true, etags: Mutex::default() })
    }

    /// How long a blob is; `None` when the repository does not have it.
    ///
    /// # Errors
    /// As asking a registry; [`SourceError::Broken`] also where it does not say.
    pub async fn blob_size(&self, name: &ModelRef, digest: &Digest) -> Result<Option<u64>, SourceError> {
        let url = self.url(name, &format!("blobs/{digest}"));
        let answer = self.ask(&Question::new(Method::HEAD, url, scope(name, false))).await?;
        match answer.status() {
            StatusCode::OK => {
                let length = answer.header("content-length").and_then(|text| text.parse().ok());
                length.map(Some).ok_or_else(|| answer.broken("it does not say how long the blob is"))
            }
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(answer.into_error().await),
        }
    }
}

impl BlobSource for Repository {
    fn host(&self) -> &str {
        self.registry.host()
    }

    fn open<'a>(
        &'a self,
        digest: &'a Digest,
        size_bytes: u64,
        range: Range<u64>,
    ) -> Pending<'a, Result<Opened, SourceError>> {
        Box::pin(self.ranged(digest, size_bytes, range))
    }
}

impl Repository {
    async fn ranged(&self, digest: &Digest, size_bytes: u64, range: Range<u64>) -> Result<Opened, SourceError> {
        let url = self.registry.url(&self.name, &format!("blobs/{digest}"));
        let mut question = Question::new(Method::GET, url, scope(&self.name, false));
        // HTTP has no way to ask for no bytes.
        if !range.is_empty() {
            question = question.with("range", &format!("bytes={}-{}", range.start, range.end - 1));
        }
        let answer = match self.stranger {
            true => {
                self.registry
                    .send(question.method, &question.url, &question.headers, None, reqwest::Body::default())
                    .await?
            }
            false => self.registry.ask(&question).await?,
        };
        let (offset, length_bytes) = match answer.status() {
            StatusCode::OK => (0, size_bytes),
            StatusCode::PARTIAL_CONTENT => {
                let said = answer.header(CONTENT_RANGE.as_str()).unwrap_or_default();
                let sent = part(said, &range, size_bytes).ok_or_else(|| {
                    let asked = format!("{}-{}/{size_bytes}", range.start, range.end.saturating_sub(1));
                    answer.broken(format!("asked for bytes {asked}, it answers with {said:?}"))
                })?;
                (sent.start, sent.end - sent.start)
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let said = answer.header(CONTENT_RANGE.as_str()).unwrap_or("416").to_owned();
                return Err(answer.broken(format!("it has not {size_bytes} bytes of this blob: {said:?}")));
            }
            _ => return Err(answer.into_error().await),
        };
        if let Some(length) = answer.response.content_length()
            && length != length_bytes
        {
            return Err(answer.broken(format!("it wants to send {length} bytes where {length_bytes} are due")));
        }
        self.recognise(digest, &answer)?;
        Ok(Opened { offset, body: Box::new(Streamed { answer, length_bytes, read_bytes: 0 }) })
    }

    /// Holds the answer's `ETag` against the one that the same host gave before. Another one is remembered from now on, so
    /// that the next try begins with the new file.
    fn recognise(&self, digest: &Digest, answer: &Answer) -> Result<(), SourceError> {
        let Some(etag) = answer.header(ETAG.as_str()) else { return Ok(()) };
        let mut etags = self.etags.lock().unwrap_or_else(PoisonError::into_inner);
        match etags.insert((*digest, answer.elsewhere.clone()), etag.to_owned()) {
            Some(before) if before != etag => Err(answer.broken("the file changed there meanwhile")),
            _ => Ok(()),
        }
    }
}

/// The bytes of a blob as an answer brings them, exactly as many as are due.
struct Streamed {
    answer: Answer,
    length_bytes: u64,
    read_bytes: u64,
}

impl Body for Streamed {
    fn next(&mut self) -> Pending<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let more = self.answer.response.chunk().await.map_err(|error| self.answer.cut(root(&error)))?;
            let due = self.length_bytes - self.read_bytes;
            match more {
                None if due > 0 => {
                    let reason = format!("the answer ended after {} of {} bytes", self.read_bytes, self.length_bytes);
                    Err(self.answer.cut(reason))
                }
                None => Ok(None),
                Some(more) if more.len() as u64 > due => {
                    Err(self.answer.broken(format!("it sent more than the {} bytes that are due", self.length_bytes)))
                }
                Some(more) => {
                    self.read_bytes += more.len() as u64;
                    Ok(Some(more))
                }
            }
        })
    }
}

/// Reads `bytes 0-99/1000` (RFC 9110 section 14.4) and returns the part if it is one of what was asked for: it begins at
/// the first byte asked for, holds at least that, goes no further than asked, and is of a blob of the right length.
fn part(text: &str, asked: &Range<u64>, size_bytes: u64) -> Option<Range<u64>> {
    let (span, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    let (first, last) = (number(first)?, number(last)?);
    let right_total = total == "*" || number(total) == Some(size_bytes);
    (right_total && first == asked.start && (first..asked.end).contains(&last)).then(|| first..last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges() {
        let check = |text: &str, expected: Option<Range<u64>>| {
            assert_eq!(part(text, &(10..20), 100), expected, "{text:?} for bytes 10 to 19 of 100");
        };
        check("bytes 10-19/100", Some(10..20));
        check("bytes 10-19/*", Some(10..20));
        check("bytes 10-14/100", Some(10..15));
        check("bytes 10-20/100", None);
        check("bytes 11-19/100", None);
        check("bytes 9-19/100", None);
        check("bytes 10-9/100", None);
        check("bytes 10-19/99", None);
        check("bytes +10-19/100", None);
        check("bytes */100", None);
        check("items 10-19/100", None);
        check("bytes 10-18446744073709551615/100", None);
        check("bytes 10-99999999999999999999/100", None);
        check("", None);
    }
}
