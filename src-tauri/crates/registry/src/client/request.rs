//! Requests to a registry, with authentication and redirects.
//!
//! **Invariants:** credentials are sent only to the registry's own scheme, host and port, and not after a redirect has led
//! to another host and back. A redirect never leads from `https` to `http`, contains no credentials, and does not lead from
//! a public registry to a private address ([`super::redirect_policy`]). At most [`MAX_REDIRECTS`] are followed.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Body, Method, StatusCode, Url};

use super::address::{check_redirect, host_and_port};
use super::failure::{failure_reason, tls_error};
use super::redirect_policy::RedirectPolicy;
use super::registry::Registry;
use super::response::RegistryResponse;
use crate::auth::Scope;
use crate::{SourceError, TlsError};

/// The limit of Go's HTTP client, which registries expect.
const MAX_REDIRECTS: usize = 10;

/// A request to a registry.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The scope of the token.
    pub(crate) scope: Scope,
    /// Whether to follow redirects; otherwise they are returned.
    pub(crate) follow_redirects: bool,
}

impl Request {
    /// Creates a request without a body that follows redirects.
    pub(crate) fn new(method: Method, url: Url, scope: Scope) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Bytes::new(), scope, follow_redirects: true }
    }

    /// Adds a header.
    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_str(value).expect("the headers of this crate are plain ASCII");
        self.headers.insert(name, value);
        self
    }
}

impl Registry {
    /// Sends a request, with the cached token first, then once with a new token if the registry responds with 401. If the
    /// target of a redirect refuses, the registry is asked once more, because redirects are signed URLs that expire. The
    /// second response is final.
    pub(crate) async fn execute(&self, request: &Request) -> Result<RegistryResponse, SourceError> {
        let response = self.execute_authenticated(request).await?;
        if !request.follow_redirects || !response.is_denied_by_redirect_host() {
            return Ok(response);
        }
        let response = self.execute_authenticated(request).await?;
        if response.is_denied_by_redirect_host() { Err(response.into_refused().await) } else { Ok(response) }
    }

    async fn execute_authenticated(&self, request: &Request) -> Result<RegistryResponse, SourceError> {
        let cached = self.cached_authorization(&request.scope).await;
        let response = self.send_following_redirects(request, cached.as_ref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED || response.redirect_host.is_some() {
            return Ok(response);
        }
        let fresh = self.authenticate(response, &request.scope, cached.as_ref()).await?;
        let response = self.send_following_redirects(request, Some(&fresh)).await?;
        if response.status() == StatusCode::UNAUTHORIZED && response.redirect_host.is_none() {
            self.auth.forget(&request.scope).await;
            return Err(response.denied("unauthorized: access denied"));
        }
        Ok(response)
    }

    /// The cached `Authorization` header of a scope.
    pub(crate) async fn cached_authorization(&self, scope: &Scope) -> Option<HeaderValue> {
        self.auth.cached_authorization(scope).await
    }

    /// Sends a request and follows redirects.
    async fn send_following_redirects(
        &self,
        request: &Request,
        credentials: Option<&HeaderValue>,
    ) -> Result<RegistryResponse, SourceError> {
        let mut url = request.url.clone();
        let mut left_registry = false;
        for _ in 0..=MAX_REDIRECTS {
            left_registry |= !self.is_own(&url);
            let credentials = if left_registry { None } else { credentials };
            let body = Body::from(request.body.clone());
            let response = self.send(request.method.clone(), &url, &request.headers, credentials, body).await?;
            if !request.follow_redirects || !response.status().is_redirection() {
                return Ok(response);
            }
            url = self.redirect_target(&url, &response)?;
        }
        Err(self.refusal(format!("more than {MAX_REDIRECTS} redirects")))
    }

    /// The target of a redirect, if it is allowed.
    fn redirect_target(&self, from: &Url, response: &RegistryResponse) -> Result<Url, SourceError> {
        let Some(location) = response.header(LOCATION.as_str()) else {
            return Err(response.broken(format!("{} without a Location header", response.status())));
        };
        let to = from.join(location).map_err(|error| response.refused(format!("invalid redirect target: {error}")))?;
        check_redirect(from, &to).map_err(|reason| response.refused(reason))?;
        Ok(to)
    }

    /// Sends one request without following redirects. `credentials` becomes the `Authorization` header.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: &HeaderMap,
        credentials: Option<&HeaderValue>,
        body: Body,
    ) -> Result<RegistryResponse, SourceError> {
        self.send_stream(method, url, headers, credentials, body, &AtomicU64::new(0)).await
    }

    /// Sends one request with a streamed body. The response timeout restarts whenever `taken_bytes` has grown.
    pub(crate) async fn send_stream(
        &self,
        method: Method,
        url: &Url,
        headers: &HeaderMap,
        credentials: Option<&HeaderValue>,
        body: Body,
        taken_bytes: &AtomicU64,
    ) -> Result<RegistryResponse, SourceError> {
        let policy = if self.is_own(url) {
            RedirectPolicy::AnyHost
        } else {
            self.transport.redirects.for_registry(&self.base).await
        };
        let client =
            if policy == RedirectPolicy::AnyHost { &self.transport.http } else { &self.transport.redirect_http };
        let mut request = client.request(method, url.clone()).headers(headers.clone()).body(body);
        if let Some(credentials) = credentials {
            request = request.header(AUTHORIZATION, credentials);
        }
        let redirect_host = (!self.is_own(url)).then(|| host_and_port(url));
        if redirect_host.is_some() && !policy.allows(url) {
            return Err(self.refusal(format!("it redirects to {}, which is not a public address", host_and_port(url))));
        }
        let broken = |reason: String| {
            let reason = match &redirect_host {
                Some(host) => format!("{host} (redirect target): {reason}"),
                None => reason,
            };
            SourceError::Broken { host: self.host().to_owned(), reason, answered: false }
        };
        let untrusted = |cause: TlsError| {
            let host = redirect_host.clone().unwrap_or_else(|| self.host().to_owned());
            SourceError::Untrusted { host, cause }
        };
        let timeout = self.transport.response_timeout;
        let mut sending = std::pin::pin!(request.send());
        let mut before = 0;
        let sent = loop {
            match tokio::time::timeout(timeout, &mut sending).await {
                Ok(sent) => break sent,
                Err(_) => match taken_bytes.load(Ordering::Relaxed) {
                    now if now > before => before = now,
                    _ => return Err(broken(format!("no response within {} s", timeout.as_secs_f32()))),
                },
            }
        };
        let response = sent.map_err(|error| match tls_error(&error) {
            Some(found) => untrusted(found),
            None => broken(failure_reason(&error)),
        })?;
        let host = self.host().to_owned();
        Ok(RegistryResponse { inner: response, host, redirect_host, response_timeout: timeout, now: self.now() })
    }

    /// Whether the URL has the registry's scheme, host and port.
    pub(crate) fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    /// A permanent error of this registry.
    pub(crate) fn refusal(&self, reason: impl Into<String>) -> SourceError {
        SourceError::Refused { host: self.host().to_owned(), status: None, reason: reason.into() }
    }

    /// A 401 of this registry that cannot be answered.
    pub(crate) fn unauthorized(&self, reason: &str) -> SourceError {
        let status = Some(StatusCode::UNAUTHORIZED.as_u16());
        SourceError::Refused { host: self.host().to_owned(), status, reason: reason.to_owned() }
    }
}
