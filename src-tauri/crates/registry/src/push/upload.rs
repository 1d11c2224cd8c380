//! The upload of one blob: a session that the registry opens, parts, and a commit that names the digest.
//!
//! A part goes to the session's address by `PATCH`. A registry in front of an object store answers that with a direct
//! address (307) that the part is `PUT` to, without credentials and beside other parts; any other keeps the part itself
//! and says where the next one goes, so that those go one after another.

use std::fmt::Write;

use cairn_store::ModelRef;
use md5::{Digest as _, Md5};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Method, StatusCode, Url};
use tokio::task::{JoinError, JoinSet};

use super::part::{Blob, Delivery, Meter, Part, Sent, send};
use super::{PushError, PushRules, PushWatcher, Tries, next_address};
use crate::SourceError;
use crate::client::{Answer, Question, Registry, scope};

/// Where the next step goes, where `Location` says something else or nothing.
const UPLOAD_LOCATION: &str = "docker-upload-location";
/// Says that we can deal with direct addresses.
const REDIRECT_UPLOADS: HeaderName = HeaderName::from_static("x-redirect-uploads");
/// Names the part, without the unit that HTTP wants there.
const CONTENT_RANGE: HeaderName = HeaderName::from_static("content-range");
/// How often a blob is begun anew because the registry lost the session or remembers another length.
const MAX_RESTARTS: u32 = 3;

/// One blob that goes to a registry.
pub(super) struct Upload<'a> {
    pub(super) registry: &'a Registry,
    pub(super) name: &'a ModelRef,
    pub(super) rules: &'a PushRules,
    pub(super) watcher: &'a PushWatcher,
    pub(super) blob: &'a Blob,
    /// Another repository of the registry that is said to have it.
    pub(super) from: Option<&'a ModelRef>,
}

/// How a session ended.
enum Outcome {
    /// The registry has the blob.
    Done,
    /// The session is lost; another one may do better.
    Lost(SourceError),
}

/// A part at a direct address: which, and its MD5.
type Arrived = Result<(usize, [u8; 16]), PushError>;

/// The MD5 of each part, in their order.
type Sums = Vec<[u8; 16]>;

impl Upload<'_> {
    pub(super) async fn run(&self) -> Result<(), PushError> {
        let meter = Meter::new(self.blob, self.watcher);
        let mut restarts = 0;
        if self.is_there().await? {
            meter.finish();
            return Ok(());
        }
        loop {
            match self.session().await? {
                None => break,
                Some(url) => match self.through(url, &meter).await? {
                    Outcome::Done => break,
                    Outcome::Lost(error) if restarts == MAX_RESTARTS => return Err(error.into()),
                    Outcome::Lost(_) => restarts += 1,
                },
            }
        }
        meter.finish();
        Ok(())
    }

    /// Has the repository the blob already?
    async fn is_there(&self) -> Result<bool, SourceError> {
        let url = self.registry.url(self.name, &format!("blobs/{}", self.blob.digest));
        // A token to read is what a registry gives for this, whatever is asked for; the one to write is another.
        let question = Question::new(Method::HEAD, url, scope(self.name, false));
        let mut tries = Tries::new(self.rules, self.watcher);
        loop {
            match self.registry.ask(&question).await {
                Ok(answer) if answer.status() == StatusCode::OK => return Ok(true),
                Ok(answer) if answer.status() == StatusCode::NOT_FOUND => return Ok(false),
                Ok(answer) => tries.again(answer.into_error().await).await?,
                Err(error) => tries.again(error).await?,
            }
        }
    }

    /// Opens a session, and returns where its first part goes; `None` where the registry took the blob over from another
    /// repository.
    async fn session(&self) -> Result<Option<Url>, SourceError> {
        let mut url = self.registry.url(self.name, "blobs/uploads/");
        if let Some(from) = self.from {
            let repository = format!("{}/{}", from.namespace(), from.model());
            let mount = self.blob.digest.to_string();
            url.query_pairs_mut().append_pair("mount", &mount).append_pair("from", &repository);
        }
        let mut question = Question::new(Method::POST, url.clone(), scope(self.name, true)).with("content-length", "0");
        question.follow = false;
        let mut tries = Tries::new(self.rules, self.watcher);
        loop {
            match self.registry.ask(&question).await {
                Ok(answer) if answer.status() == StatusCode::CREATED => return Ok(None),
                Ok(answer) if answer.status() == StatusCode::ACCEPTED => {
                    let next = next_step(&url, &answer)?;
                    return next.map(Some).ok_or_else(|| answer.refused("it does not say where to upload to"));
                }
                Ok(answer) => tries.again(answer.into_error().await).await?,
                Err(error) => tries.again(error).await?,
            }
        }
    }

    /// Sends all parts and commits.
    async fn through(&self, mut url: Url, meter: &Meter) -> Result<Outcome, PushError> {
        let parts = Part::all(self.blob.size_bytes, self.rules.min_part_bytes, self.rules.max_part_bytes);
        let mut sums: Vec<Option<[u8; 16]>> = vec![None; parts.len()];
        // Dropping the set ends what is still on its way.
        let mut direct: JoinSet<Arrived> = JoinSet::new();
        for (index, part) in parts.iter().enumerate() {
            let answered = match self.patch(&url, *part, meter).await? {
                Ok(sent) => sent,
                Err(lost) => return Ok(Outcome::Lost(lost)),
            };
            let Sent { answer, md5, bytes } = answered;
            if answer.status() == StatusCode::TEMPORARY_REDIRECT {
                // The part itself has yet to go.
                meter.take_back(bytes);
                let target = next_address(&url, &answer, LOCATION.as_str())?
                    .ok_or_else(|| answer.refused("it does not say where to send the part to"))?;
                if let Some(next) = next_address(&url, &answer, UPLOAD_LOCATION)? {
                    url = next;
                }
                while direct.len() >= self.rules.direct_streams.max(1) {
                    note(&mut sums, direct.join_next().await)?;
                }
                let delivery = Direct {
                    registry: self.registry.clone(),
                    rules: self.rules.clone(),
                    watcher: PushWatcher::clone(self.watcher),
                    blob: self.blob.clone(),
                    meter: meter.clone(),
                };
                let part = *part;
                direct.spawn(async move { Ok((index, delivery.put(&target, part).await?)) });
            } else {
                url = next_step(&url, &answer)?.unwrap_or(url);
                if let Some(sum) = sums.get_mut(index) {
                    *sum = md5;
                }
            }
        }
        while let Some(joined) = direct.join_next().await {
            note(&mut sums, Some(joined))?;
        }
        let sums: Sums = sums.into_iter().flatten().collect();
        self.commit(&url, &sums).await
    }

    /// Sends a part to the session, up to an answer that takes it or says where else it goes. The inner error is a lost
    /// session.
    async fn patch(&self, url: &Url, part: Part, meter: &Meter) -> Result<Result<Sent, SourceError>, PushError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(REDIRECT_UPLOADS, HeaderValue::from_static("1"));
        let range = format!("{}-{}", part.start, part.end - 1);
        headers.insert(CONTENT_RANGE, HeaderValue::from_str(&range).expect("digits are plain ASCII"));
        let scope = scope(self.name, true);
        let own = self.registry.is_own(url);
        let mut tries = Tries::new(self.rules, self.watcher);
        loop {
            let held = if own { self.registry.held(&scope).await } else { None };
            let delivery = Delivery {
                registry: self.registry,
                method: Method::PATCH,
                url,
                headers: headers.clone(),
                credentials: held.as_ref(),
                part,
            };
            let error = match send(delivery, self.blob, meter).await {
                Ok(sent) if sent.answer.status() == StatusCode::TEMPORARY_REDIRECT => return Ok(Ok(sent)),
                Ok(sent) if sent.answer.status().is_success() && sent.md5.is_some() => return Ok(Ok(sent)),
                Ok(Sent { answer, bytes, .. }) => {
                    meter.take_back(bytes);
                    match answer.status() {
                        StatusCode::UNAUTHORIZED if own => {
                            let broken = answer.broken("unauthorized: access denied");
                            self.registry.sign_in(answer, &scope, held.as_ref()).await?;
                            broken
                        }
                        StatusCode::NOT_FOUND | StatusCode::RANGE_NOT_SATISFIABLE => {
                            return Ok(Err(answer.broken(format!("the upload is lost: {}", answer.status()))));
                        }
                        _ => answer.into_error().await,
                    }
                }
                Err(PushError::Registry(error)) => error,
                Err(error) => return Err(error),
            };
            tries.again(error).await?;
        }
    }

    /// Ends the session: the registry is to keep what it got under the blob's digest.
    async fn commit(&self, url: &Url, sums: &Sums) -> Result<Outcome, PushError> {
        let mut url = url.clone();
        let digest = self.blob.digest.to_string();
        url.query_pairs_mut().append_pair("digest", &digest).append_pair("etag", &etag(sums));
        let mut question = Question::new(Method::PUT, url, scope(self.name, true)).with("content-length", "0");
        question.follow = false;
        let mut tries = Tries::new(self.rules, self.watcher);
        loop {
            let error = match self.registry.ask(&question).await {
                Ok(answer)
                    if matches!(answer.status(), StatusCode::OK | StatusCode::CREATED | StatusCode::ACCEPTED) =>
                {
                    return Ok(Outcome::Done);
                }
                Ok(answer) if matches!(answer.status(), StatusCode::NOT_FOUND | StatusCode::RANGE_NOT_SATISFIABLE) => {
                    let lost = answer.broken(format!("the upload is lost: {}", answer.status()));
                    // A commit whose answer was lost has ended the session all the same.
                    return Ok(if self.is_there().await? { Outcome::Done } else { Outcome::Lost(lost) });
                }
                Ok(answer) => answer.into_error().await,
                Err(error) => error,
            };
            tries.again(error).await?;
        }
    }
}

/// Parts on their way to direct addresses.
struct Direct {
    registry: Registry,
    rules: PushRules,
    watcher: PushWatcher,
    blob: Blob,
    meter: Meter,
}

impl Direct {
    /// Sends a part to a direct address, which holds its own permission.
    async fn put(&self, url: &Url, part: Part) -> Result<[u8; 16], PushError> {
        let mut tries = Tries::new(&self.rules, &self.watcher);
        loop {
            let headers = HeaderMap::new();
            let delivery =
                Delivery { registry: &self.registry, method: Method::PUT, url, headers, credentials: None, part };
            let error = match send(delivery, &self.blob, &self.meter).await {
                Ok(Sent { answer, md5: Some(md5), .. }) if answer.status().is_success() => return Ok(md5),
                Ok(Sent { answer, bytes, .. }) => {
                    self.meter.take_back(bytes);
                    answer.into_error().await
                }
                Err(PushError::Registry(error)) => error,
                Err(error) => return Err(error),
            };
            tries.again(error).await?;
        }
    }
}

/// Where the next step of a session goes.
fn next_step(from: &Url, answer: &Answer) -> Result<Option<Url>, SourceError> {
    match next_address(from, answer, UPLOAD_LOCATION)? {
        Some(next) => Ok(Some(next)),
        None => next_address(from, answer, LOCATION.as_str()),
    }
}

/// Keeps the sum of a part that has arrived.
fn note(sums: &mut [Option<[u8; 16]>], joined: Option<Result<Arrived, JoinError>>) -> Result<(), PushError> {
    let Some(joined) = joined else { return Ok(()) };
    let (index, sum) = joined.expect("sending a part does not panic")?;
    if let Some(place) = sums.get_mut(index) {
        *place = Some(sum);
    }
    Ok(())
}

/// The name that object stores give to what is made of parts: the MD5 of the parts' MD5s, and how many they are.
fn etag(sums: &Sums) -> String {
    let whole = Md5::digest(sums.concat());
    let mut text = String::with_capacity(40);
    for byte in whole {
        write!(text, "{byte:02x}").expect("a String grows");
    }
    write!(text, "-{}", sums.len()).expect("a String grows");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags() {
        // The expected sum is md5sum's, of the sums that md5sum gives of the two parts.
        let sums = vec![Md5::digest(b"hello").into(), Md5::digest(b"world").into()];
        assert_eq!(etag(&sums), "065947336a2f2a95ba8899f3675c3be6-2", "the sum of the sums");
        assert_eq!(etag(&Vec::new()), "d41d8cd98f00b204e9800998ecf8427e-0", "the sum of nothing (RFC 1321)");
    }
}
