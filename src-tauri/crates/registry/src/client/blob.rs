//! Range requests for blobs.
//!
//! Every request starts at the registry, because the signed URLs that it redirects to expire within minutes. The response
//! headers are compared with the request, and the body with the headers. The download verifies the content itself.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cairn_store::{Digest, ModelRef};
use parking_lot::Mutex;
use reqwest::header::{CONTENT_RANGE, ETAG};
use reqwest::{Method, StatusCode};

use super::registry::{Registry, scope};
use super::request::Request;
use super::response::RegistryResponse;
use super::transport_error::root_cause;
use crate::{BlobSource, Body, BoxFuture, RangeResponse, SourceError};

/// A model's repository as a source of blobs.
struct Repository {
    registry: Registry,
    name: ModelRef,
    /// Do not authenticate and do not follow redirects.
    is_untrusted: bool,
    /// The last `ETag` of each blob and host. It changes when the file changes.
    etags: Mutex<HashMap<(Digest, Option<String>), String>>,
}

impl Registry {
    /// Returns the repository of a name as a blob source.
    #[must_use]
    pub fn blobs(&self, name: &ModelRef) -> Arc<dyn BlobSource> {
        Arc::new(Repository {
            registry: self.clone(),
            name: name.clone(),
            is_untrusted: false,
            etags: Mutex::default(),
        })
    }

    /// Like [`Self::blobs`], for a server that the user did not configure: sends no credentials and follows no redirects.
    #[must_use]
    pub fn untrusted_blobs(&self, name: &ModelRef) -> Arc<dyn BlobSource> {
        Arc::new(Repository { registry: self.clone(), name: name.clone(), is_untrusted: true, etags: Mutex::default() })
    }

    /// Returns the size of a blob, or `None` if the repository does not have it.
    ///
    /// # Errors
    /// If the request fails, or the response has no length.
    pub async fn blob_size(&self, name: &ModelRef, digest: &Digest) -> Result<Option<u64>, SourceError> {
        let url = self.url(name, &format!("blobs/{digest}"));
        let response = self.execute(&Request::new(Method::HEAD, url, scope(name, false))).await?;
        match response.status() {
            StatusCode::OK => {
                let length = response.header("content-length").and_then(|text| text.parse().ok());
                length.map(Some).ok_or_else(|| response.broken("the response has no content length"))
            }
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(response.into_error().await),
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
    ) -> BoxFuture<'a, Result<RangeResponse, SourceError>> {
        Box::pin(self.ranged(digest, size_bytes, range))
    }
}

impl Repository {
    async fn ranged(&self, digest: &Digest, size_bytes: u64, range: Range<u64>) -> Result<RangeResponse, SourceError> {
        let url = self.registry.url(&self.name, &format!("blobs/{digest}"));
        let mut request = Request::new(Method::GET, url, scope(&self.name, false));
        // HTTP cannot express an empty range.
        if !range.is_empty() {
            request = request.with_header("range", &format!("bytes={}-{}", range.start, range.end - 1));
        }
        let response = match self.is_untrusted {
            true => {
                self.registry
                    .send(request.method, &request.url, &request.headers, None, reqwest::Body::default())
                    .await?
            }
            false => self.registry.execute(&request).await?,
        };
        let (offset, length_bytes) = match response.status() {
            StatusCode::OK => (0, size_bytes),
            StatusCode::PARTIAL_CONTENT => {
                let content_range = response.header(CONTENT_RANGE.as_str()).unwrap_or_default();
                let sent = parse_content_range(content_range, &range, size_bytes).ok_or_else(|| {
                    let requested = format!("{}-{}/{size_bytes}", range.start, range.end.saturating_sub(1));
                    response.broken(format!(
                        "requested bytes {requested}, but the response has the range {content_range:?}"
                    ))
                })?;
                (sent.start, sent.end - sent.start)
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let content_range = response.header(CONTENT_RANGE.as_str()).unwrap_or("416").to_owned();
                return Err(response.broken(format!("its blob does not have {size_bytes} bytes: {content_range:?}")));
            }
            _ => return Err(response.into_error().await),
        };
        if let Some(length) = response.inner.content_length()
            && length != length_bytes
        {
            return Err(response.broken(format!("its response has {length} bytes instead of {length_bytes}")));
        }
        self.check_etag(digest, &response)?;
        Ok(RangeResponse { offset, body: Box::new(ResponseBody { response, length_bytes, read_bytes: 0 }) })
    }

    /// Compares the `ETag` with the last one of the same host, and stores it. After a change, the retry starts with the
    /// new file.
    fn check_etag(&self, digest: &Digest, response: &RegistryResponse) -> Result<(), SourceError> {
        let Some(etag) = response.header(ETAG.as_str()) else { return Ok(()) };
        let mut etags = self.etags.lock();
        match etags.insert((*digest, response.redirect_host.clone()), etag.to_owned()) {
            Some(before) if before != etag => Err(response.broken("the file changed on the server")),
            _ => Ok(()),
        }
    }
}

/// The body of a response, checked to have the expected length.
struct ResponseBody {
    response: RegistryResponse,
    length_bytes: u64,
    read_bytes: u64,
}

impl Body for ResponseBody {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async move {
            let next =
                self.response.inner.chunk().await.map_err(|error| self.response.truncated(root_cause(&error)))?;
            let expected_bytes = self.length_bytes - self.read_bytes;
            match next {
                None if expected_bytes > 0 => {
                    let reason = format!("the response ended after {} of {} bytes", self.read_bytes, self.length_bytes);
                    Err(self.response.truncated(reason))
                }
                None => Ok(None),
                Some(bytes) if bytes.len() as u64 > expected_bytes => {
                    Err(self.response.broken(format!("it sent more than the expected {} bytes", self.length_bytes)))
                }
                Some(bytes) => {
                    self.read_bytes += bytes.len() as u64;
                    Ok(Some(bytes))
                }
            }
        })
    }
}

/// Parses `Content-Range`, for example `bytes 0-99/1000` (RFC 9110 section 14.4). Returns the range if it starts at the
/// requested offset, is not longer than requested, and the total size matches.
fn parse_content_range(text: &str, requested: &Range<u64>, size_bytes: u64) -> Option<Range<u64>> {
    let (span, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    let (first, last) = (number(first)?, number(last)?);
    let total_matches = total == "*" || number(total) == Some(size_bytes);
    (total_matches && first == requested.start && (first..requested.end).contains(&last)).then(|| first..last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_range_is_accepted_only_within_request() {
        let check = |text: &str, expected: Option<Range<u64>>| {
            assert_eq!(parse_content_range(text, &(10..20), 100), expected, "{text:?} for bytes 10 to 19 of 100");
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
