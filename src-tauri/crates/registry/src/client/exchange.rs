//! One question to a registry: with credentials where they belong, through redirects, until there is an answer.
//!
//! **Invariants:** credentials go to the registry's own scheme, host and port and nowhere else, not even back there once
//! a redirect has led away; a redirect never leads from `https` to `http`; there are at most [`MAX_REDIRECTS`].

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use reqwest::{Body, Method, StatusCode, Url};

use super::answer::Answer;
use super::reach::Reach;
use super::registry::Registry;
use super::trouble::{distrust, trouble};
use crate::auth::Scope;
use crate::{Distrust, SourceError};

/// As many as Go's client follows, which registries are made for.
const MAX_REDIRECTS: usize = 10;

/// A question to a registry.
pub(crate) struct Question {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// What a token must allow.
    pub(crate) scope: Scope,
    /// Whether redirects are followed; otherwise they are answers like others.
    pub(crate) follow: bool,
}

impl Question {
    /// A question without a body whose redirects are followed.
    pub(crate) fn new(method: Method, url: Url, scope: Scope) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Bytes::new(), scope, follow: true }
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_str(value).expect("the headers of this crate are plain ASCII");
        self.headers.insert(name, value);
        self
    }
}

impl Registry {
    /// Asks, and signs in when the registry wants that: first with what is known, then once with a new token. Where a host
    /// refuses that the registry sent us to, the registry is asked once more, because direct addresses are signed for a while
    /// only; what the new one is answered is final.
    pub(crate) async fn ask(&self, question: &Question) -> Result<Answer, SourceError> {
        let answer = self.signed_in(question).await?;
        if !question.follow || !answer.is_denied_elsewhere() {
            return Ok(answer);
        }
        let answer = self.signed_in(question).await?;
        if answer.is_denied_elsewhere() { Err(answer.into_denial().await) } else { Ok(answer) }
    }

    async fn signed_in(&self, question: &Question) -> Result<Answer, SourceError> {
        let held = self.held(&question.scope).await;
        let answer = self.hop(question, held.as_ref()).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || answer.elsewhere.is_some() {
            return Ok(answer);
        }
        let fresh = self.sign_in(answer, &question.scope, held.as_ref()).await?;
        let answer = self.hop(question, Some(&fresh)).await?;
        if answer.status() == StatusCode::UNAUTHORIZED && answer.elsewhere.is_none() {
            self.auth.forget(&question.scope).await;
            return Err(answer.denied("unauthorized: access denied"));
        }
        Ok(answer)
    }

    /// The credentials that a scope has already.
    pub(crate) async fn held(&self, scope: &Scope) -> Option<HeaderValue> {
        self.auth.held(scope).await
    }

    /// Obtains what the registry's 401 asks for; `rejected` is what it did not accept.
    pub(crate) async fn sign_in(
        &self,
        unauthorized: Answer,
        scope: &Scope,
        rejected: Option<&HeaderValue>,
    ) -> Result<HeaderValue, SourceError> {
        let challenges: Vec<String> = unauthorized
            .response
            .headers()
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| Some(value.to_str().ok()?.to_owned()))
            .collect();
        drop(unauthorized);
        self.auth.sign_in(self, &challenges, scope, rejected).await
    }

    /// Sends, and follows redirects.
    async fn hop(&self, question: &Question, credentials: Option<&HeaderValue>) -> Result<Answer, SourceError> {
        let mut url = question.url.clone();
        let mut left = false;
        for _ in 0..=MAX_REDIRECTS {
            left |= !self.is_own(&url);
            let credentials = if left { None } else { credentials };
            let body = Body::from(question.body.clone());
            let answer = self.send(question.method.clone(), &url, &question.headers, credentials, body).await?;
            if !question.follow || !answer.status().is_redirection() {
                return Ok(answer);
            }
            url = self.redirected(&url, &answer)?;
        }
        Err(self.refusal(format!("more than {MAX_REDIRECTS} redirects")))
    }

    /// Where a redirect leads, if it may lead there.
    fn redirected(&self, from: &Url, answer: &Answer) -> Result<Url, SourceError> {
        let Some(location) = answer.header(LOCATION.as_str()) else {
            return Err(answer.broken(format!("{} without a Location", answer.status())));
        };
        let to = from.join(location).map_err(|error| answer.refused(format!("a redirect to no address: {error}")))?;
        if !may_lead(from, &to) {
            let reason = format!("a redirect from {} to {}", from.scheme(), to.scheme());
            return Err(answer.refused(reason));
        }
        Ok(to)
    }

    /// One request, without any redirect. `credentials` is sent as it is.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: &HeaderMap,
        credentials: Option<&HeaderValue>,
        body: Body,
    ) -> Result<Answer, SourceError> {
        self.send_stream(method, url, headers, credentials, body, &AtomicU64::new(0)).await
    }

    /// One request with a body that takes its time: the server's time-out begins anew whenever `taken_bytes` has grown.
    pub(crate) async fn send_stream(
        &self,
        method: Method,
        url: &Url,
        headers: &HeaderMap,
        credentials: Option<&HeaderValue>,
        body: Body,
        taken_bytes: &AtomicU64,
    ) -> Result<Answer, SourceError> {
        let reach = if self.is_own(url) { Reach::Anywhere } else { self.transport.reach.of(&self.base).await };
        let client = if reach == Reach::Anywhere { &self.transport.http } else { &self.transport.elsewhere };
        let mut request = client.request(method, url.clone()).headers(headers.clone()).body(body);
        if let Some(credentials) = credentials {
            request = request.header(AUTHORIZATION, credentials);
        }
        let elsewhere = (!self.is_own(url)).then(|| place(url));
        if elsewhere.is_some() && !reach.allows(url) {
            return Err(self.refusal(format!("it sends us to {}, which is no public address", place(url))));
        }
        let broken = |reason: String| {
            let reason = match &elsewhere {
                Some(host) => format!("{host}, where it sent us: {reason}"),
                None => reason,
            };
            SourceError::Broken { host: self.host().to_owned(), reason, answered: false }
        };
        let untrusted = |distrust: Distrust| {
            let host = elsewhere.clone().unwrap_or_else(|| self.host().to_owned());
            SourceError::Untrusted { host, distrust }
        };
        let patience = self.transport.answer_timeout;
        let mut sending = std::pin::pin!(request.send());
        let mut before = 0;
        let sent = loop {
            match tokio::time::timeout(patience, &mut sending).await {
                Ok(sent) => break sent,
                Err(_) => match taken_bytes.load(Ordering::Relaxed) {
                    now if now > before => before = now,
                    _ => return Err(broken(format!("no answer in {} s", patience.as_secs_f32()))),
                },
            }
        };
        let response = sent.map_err(|error| match distrust(&error) {
            Some(found) => untrusted(found),
            None => broken(trouble(&error)),
        })?;
        let host = self.host().to_owned();
        Ok(Answer { response, host, elsewhere, answer_timeout: patience, now: self.now() })
    }

    /// Is it the registry itself, by scheme, host and port?
    pub(crate) fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    /// An error of this registry that no other try changes.
    pub(crate) fn refusal(&self, reason: impl Into<String>) -> SourceError {
        SourceError::Refused { host: self.host().to_owned(), status: None, reason: reason.into() }
    }

    /// Its 401, which nothing that we know answers.
    pub(crate) fn unauthorized(&self, reason: &str) -> SourceError {
        let status = Some(StatusCode::UNAUTHORIZED.as_u16());
        SourceError::Refused { host: self.host().to_owned(), status, reason: reason.to_owned() }
    }
}

/// May whoever answers at `from` send us to `to`?
pub(crate) fn may_lead(from: &Url, to: &Url) -> bool {
    matches!((from.scheme(), to.scheme()), ("https" | "http", "https") | ("http", "http"))
}

/// Host and port of a URL.
pub(crate) fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}
