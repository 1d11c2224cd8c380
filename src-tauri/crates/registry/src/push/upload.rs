//! The upload of one blob: the registry opens a session, the parts are sent, and a commit names the digest.
//!
//! A part is sent to the session's URL by `PATCH`. A registry with an object store redirects (307) to a direct URL. The part
//! is then sent there by `PUT`, without credentials and in parallel with other parts. Any other registry stores the part
//! itself and returns the URL of the next part, so these parts are sent sequentially.

use cairn_store::ModelRef;
use md5::{Digest as _, Md5};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Method, StatusCode, Url};
use tokio::task::{JoinError, JoinSet};

use super::part::{Blob, Part, PartRequest, PartResponse, ProgressMeter, send};
use super::{PushConfig, PushError, PushWatcher, Retries, next_url};
use crate::SourceError;
use crate::client::{Registry, RegistryResponse, Request, scope};

/// The header with the URL of the next request, if it is not in `Location`.
const UPLOAD_LOCATION: &str = "docker-upload-location";
/// The header that requests direct URLs from the registry.
const REDIRECT_UPLOADS: HeaderName = HeaderName::from_static("x-redirect-uploads");
/// The range of the part, without the unit that HTTP requires.
const CONTENT_RANGE: HeaderName = HeaderName::from_static("content-range");
/// How often an upload restarts because the registry lost the session or has another offset.
const MAX_RESTARTS: u32 = 3;

/// The upload of one blob.
pub(super) struct Upload<'a> {
    pub(super) registry: &'a Registry,
    pub(super) name: &'a ModelRef,
    pub(super) config: &'a PushConfig,
    pub(super) watcher: &'a PushWatcher,
    pub(super) blob: &'a Blob,
    /// Another repository of the registry that may have the blob.
    pub(super) from: Option<&'a ModelRef>,
}

/// Result of a session.
enum Outcome {
    /// The registry has the blob.
    Done,
    /// The registry lost the session. A new session may succeed.
    Lost(SourceError),
}

/// Index and MD5 of a part that was sent to a direct URL.
type DirectResult = Result<(usize, [u8; 16]), PushError>;

/// MD5 of each part, in order.
type PartDigests = Vec<[u8; 16]>;

impl Upload<'_> {
    pub(super) async fn run(&self) -> Result<(), PushError> {
        let meter = ProgressMeter::new(self.blob, self.watcher);
        let mut restarts = 0;
        if self.exists().await? {
            meter.finish();
            return Ok(());
        }
        loop {
            match self.open_session().await? {
                None => break,
                Some(url) => match self.upload_parts(url, &meter).await? {
                    Outcome::Done => break,
                    Outcome::Lost(error) if restarts == MAX_RESTARTS => return Err(error.into()),
                    Outcome::Lost(_) => restarts += 1,
                },
            }
        }
        meter.finish();
        Ok(())
    }

    /// Whether the repository has the blob.
    async fn exists(&self) -> Result<bool, SourceError> {
        let url = self.registry.url(self.name, &format!("blobs/{}", self.blob.digest));
        // Registries issue a read token for this request. The write token is separate.
        let request = Request::new(Method::HEAD, url, scope(self.name, false));
        let mut retries = Retries::new(self.config, self.watcher);
        loop {
            match self.registry.execute(&request).await {
                Ok(response) if response.status() == StatusCode::OK => return Ok(true),
                Ok(response) if response.status() == StatusCode::NOT_FOUND => return Ok(false),
                Ok(response) => retries.wait_or_fail(response.into_error().await).await?,
                Err(error) => retries.wait_or_fail(error).await?,
            }
        }
    }

    /// Opens a session and returns the URL for the first part. `None` if the registry mounted the blob from another
    /// repository.
    async fn open_session(&self) -> Result<Option<Url>, SourceError> {
        let mut url = self.registry.url(self.name, "blobs/uploads/");
        if let Some(from) = self.from {
            let repository = format!("{}/{}", from.namespace(), from.model());
            let mount = self.blob.digest.to_string();
            url.query_pairs_mut().append_pair("mount", &mount).append_pair("from", &repository);
        }
        let mut request =
            Request::new(Method::POST, url.clone(), scope(self.name, true)).with_header("content-length", "0");
        request.follow_redirects = false;
        let mut retries = Retries::new(self.config, self.watcher);
        loop {
            match self.registry.execute(&request).await {
                Ok(response) if response.status() == StatusCode::CREATED => return Ok(None),
                Ok(response) if response.status() == StatusCode::ACCEPTED => {
                    let next = next_session_url(&url, &response)?;
                    return next.map(Some).ok_or_else(|| response.refused("its response has no upload URL"));
                }
                Ok(response) => retries.wait_or_fail(response.into_error().await).await?,
                Err(error) => retries.wait_or_fail(error).await?,
            }
        }
    }

    /// Sends all parts and commits the blob.
    async fn upload_parts(&self, mut url: Url, meter: &ProgressMeter) -> Result<Outcome, PushError> {
        let parts = Part::all(self.blob.size_bytes, self.config.min_part_bytes, self.config.max_part_bytes);
        let mut sums: Vec<Option<[u8; 16]>> = vec![None; parts.len()];
        // Dropping the set cancels uploads in progress.
        let mut direct: JoinSet<DirectResult> = JoinSet::new();
        for (index, part) in parts.iter().enumerate() {
            let sent = match self.patch(&url, *part, meter).await? {
                Ok(sent) => sent,
                Err(lost) => return Ok(Outcome::Lost(lost)),
            };
            let PartResponse { response, md5, bytes } = sent;
            if response.status() == StatusCode::TEMPORARY_REDIRECT {
                // The part itself is not sent yet.
                meter.subtract(bytes);
                let target = next_url(&url, &response, LOCATION.as_str())?
                    .ok_or_else(|| response.refused("its redirect has no URL for the part"))?;
                if let Some(next) = next_url(&url, &response, UPLOAD_LOCATION)? {
                    url = next;
                }
                while direct.len() >= self.config.direct_streams.max(1) {
                    record_digest(&mut sums, direct.join_next().await)?;
                }
                let request = DirectUpload {
                    registry: self.registry.clone(),
                    config: self.config.clone(),
                    watcher: PushWatcher::clone(self.watcher),
                    blob: self.blob.clone(),
                    meter: meter.clone(),
                };
                let part = *part;
                direct.spawn(async move { Ok((index, request.put(&target, part).await?)) });
            } else {
                url = next_session_url(&url, &response)?.unwrap_or(url);
                if let Some(sum) = sums.get_mut(index) {
                    *sum = md5;
                }
            }
        }
        while let Some(joined) = direct.join_next().await {
            record_digest(&mut sums, Some(joined))?;
        }
        let sums: PartDigests = sums.into_iter().flatten().collect();
        self.commit(&url, &sums).await
    }

    /// Sends a part to the session until the registry accepts or redirects it. The inner error is a lost session.
    async fn patch(
        &self,
        url: &Url,
        part: Part,
        meter: &ProgressMeter,
    ) -> Result<Result<PartResponse, SourceError>, PushError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(REDIRECT_UPLOADS, HeaderValue::from_static("1"));
        let range = format!("{}-{}", part.start, part.end - 1);
        headers.insert(CONTENT_RANGE, HeaderValue::from_str(&range).expect("digits are ASCII"));
        let scope = scope(self.name, true);
        let is_registry = self.registry.is_own(url);
        let mut retries = Retries::new(self.config, self.watcher);
        loop {
            let authorization = if is_registry { self.registry.cached_authorization(&scope).await } else { None };
            let request = PartRequest {
                registry: self.registry,
                method: Method::PATCH,
                url,
                headers: headers.clone(),
                credentials: authorization.as_ref(),
                part,
            };
            let error = match send(request, self.blob, meter).await {
                Ok(sent) if sent.response.status() == StatusCode::TEMPORARY_REDIRECT => return Ok(Ok(sent)),
                Ok(sent) if sent.response.status().is_success() && sent.md5.is_some() => return Ok(Ok(sent)),
                Ok(PartResponse { response, bytes, .. }) => {
                    meter.subtract(bytes);
                    match response.status() {
                        StatusCode::UNAUTHORIZED if is_registry => {
                            let broken = response.broken("unauthorized: access denied");
                            self.registry.authenticate(response, &scope, authorization.as_ref()).await?;
                            broken
                        }
                        StatusCode::NOT_FOUND | StatusCode::RANGE_NOT_SATISFIABLE => {
                            return Ok(Err(
                                response.broken(format!("the registry lost the upload: {}", response.status()))
                            ));
                        }
                        _ => response.into_error().await,
                    }
                }
                Err(PushError::Registry(error)) => error,
                Err(error) => return Err(error),
            };
            retries.wait_or_fail(error).await?;
        }
    }

    /// Commits the session under the blob's digest.
    async fn commit(&self, url: &Url, sums: &PartDigests) -> Result<Outcome, PushError> {
        let mut url = url.clone();
        let digest = self.blob.digest.to_string();
        url.query_pairs_mut().append_pair("digest", &digest).append_pair("etag", &etag(sums));
        let mut request = Request::new(Method::PUT, url, scope(self.name, true)).with_header("content-length", "0");
        request.follow_redirects = false;
        let mut retries = Retries::new(self.config, self.watcher);
        loop {
            let error = match self.registry.execute(&request).await {
                Ok(response)
                    if matches!(response.status(), StatusCode::OK | StatusCode::CREATED | StatusCode::ACCEPTED) =>
                {
                    return Ok(Outcome::Done);
                }
                Ok(response)
                    if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::RANGE_NOT_SATISFIABLE) =>
                {
                    let lost = response.broken(format!("the registry lost the upload: {}", response.status()));
                    // If only the response of an earlier commit was lost, the blob exists now.
                    return Ok(if self.exists().await? { Outcome::Done } else { Outcome::Lost(lost) });
                }
                Ok(response) => response.into_error().await,
                Err(error) => error,
            };
            retries.wait_or_fail(error).await?;
        }
    }
}

/// Upload of parts to direct URLs.
struct DirectUpload {
    registry: Registry,
    config: PushConfig,
    watcher: PushWatcher,
    blob: Blob,
    meter: ProgressMeter,
}

impl DirectUpload {
    /// Sends a part to a direct URL, which contains its own authorization.
    async fn put(&self, url: &Url, part: Part) -> Result<[u8; 16], PushError> {
        let mut retries = Retries::new(&self.config, &self.watcher);
        loop {
            let headers = HeaderMap::new();
            let request =
                PartRequest { registry: &self.registry, method: Method::PUT, url, headers, credentials: None, part };
            let error = match send(request, &self.blob, &self.meter).await {
                Ok(PartResponse { response, md5: Some(md5), .. }) if response.status().is_success() => return Ok(md5),
                Ok(PartResponse { response, bytes, .. }) => {
                    self.meter.subtract(bytes);
                    response.into_error().await
                }
                Err(PushError::Registry(error)) => error,
                Err(error) => return Err(error),
            };
            retries.wait_or_fail(error).await?;
        }
    }
}

/// The URL for the next request of a session.
fn next_session_url(from: &Url, response: &RegistryResponse) -> Result<Option<Url>, SourceError> {
    match next_url(from, response, UPLOAD_LOCATION)? {
        Some(next) => Ok(Some(next)),
        None => next_url(from, response, LOCATION.as_str()),
    }
}

/// Stores the MD5 of an uploaded part.
fn record_digest(
    sums: &mut [Option<[u8; 16]>],
    joined: Option<Result<DirectResult, JoinError>>,
) -> Result<(), PushError> {
    let Some(joined) = joined else { return Ok(()) };
    let (index, sum) = joined.expect("the task that sends a part does not panic")?;
    if let Some(slot) = sums.get_mut(index) {
        *slot = Some(sum);
    }
    Ok(())
}

/// The etag of a multipart object: the MD5 of the parts' MD5s, and the number of parts.
fn etag(sums: &PartDigests) -> String {
    format!("{}-{}", hex::encode(Md5::digest(sums.concat())), sums.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etag_matches_md5sum() {
        // Computed with md5sum from the MD5s of both parts.
        let sums = vec![Md5::digest(b"hello").into(), Md5::digest(b"world").into()];
        assert_eq!(etag(&sums), "065947336a2f2a95ba8899f3675c3be6-2", "MD5 of the MD5s");
        assert_eq!(etag(&Vec::new()), "d41d8cd98f00b204e9800998ecf8427e-0", "MD5 of the empty string (RFC 1321)");
    }
}
