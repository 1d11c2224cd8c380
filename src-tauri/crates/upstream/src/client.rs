//! HTTP requests to one server, with deadlines and limits.
//!
//! Each response is limited in bytes. The HTTP client follows no redirects, so an API key reaches only the server's own host.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cairn_wire::headers::{DAEMON_REQUEST, INCOGNITO};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Request, RequestBuilder, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};

use crate::base_url::BaseUrl;
use crate::connections::UsedConnections;
use crate::failure::Failure;

/// Most bytes of a response that is read as a whole, apart from answers: a list of 1,000 models has less than 1 MiB.
const MAX_JSON_BYTES: usize = 8 << 20;
/// Most bytes of an error response that are read.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Most characters of a server's error text that are passed on.
const MAX_ERROR_CHARS: usize = 500;
/// Replaces the API key in texts of the server.
const KEY_SUBSTITUTE: &str = "[API key]";
/// Longest API key.
const MAX_KEY_BYTES: usize = 4096;

/// An API key, sent as `Authorization: Bearer KEY`.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteKey(String);

impl RemoteKey {
    /// Checks that the text can be sent in a header.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_valid =
            !text.is_empty() && text.len() <= MAX_KEY_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then(|| Self(text.to_owned()))
    }

    /// The key itself, to store it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn header(&self) -> HeaderValue {
        let mut value =
            HeaderValue::from_str(&format!("Bearer {}", self.0)).expect("a key has graphic characters only");
        value.set_sensitive(true);
        value
    }
}

/// Hides the key.
impl fmt::Debug for RemoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RemoteKey")
    }
}

/// How long a server may take.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// A list of models, or details of one.
    pub list: Duration,
    /// The first token: the server may have to load the model, and to compute a long prompt.
    pub first_token: Duration,
    /// The next bytes of an answer.
    pub idle: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { list: Duration::from_secs(5), first_token: Duration::from_secs(900), idle: Duration::from_secs(120) }
    }
}

/// The HTTP clients for requests to servers. They must not follow redirects.
#[derive(Clone)]
pub struct HttpClients {
    /// Keeps connections open for later requests.
    pub pooled: reqwest::Client,
    /// Opens a connection for each request.
    pub single_use: reqwest::Client,
}

/// HTTP client of one server. Clones share connections.
#[derive(Clone)]
pub struct UpstreamClient {
    http: HttpClients,
    /// Connections of the pooled client.
    connections: Arc<UsedConnections>,
    base: BaseUrl,
    key: Option<RemoteKey>,
    deadlines: Deadlines,
    /// Name of the server, in place of its address in texts of the server.
    name: String,
}

impl UpstreamClient {
    /// A client of the server at `base`.
    #[must_use]
    pub fn new(http: HttpClients, name: &str, base: BaseUrl, key: Option<RemoteKey>, deadlines: Deadlines) -> Self {
        Self { http, connections: Arc::default(), base, key, deadlines, name: name.to_owned() }
    }

    pub(crate) fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// Sends a GET request and parses the response.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.json(self.http.pooled.get(self.base.join(path))).await
    }

    /// Sends a POST request and parses the response.
    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: Bytes) -> Result<T, Failure> {
        self.json(self.http.pooled.post(self.base.join(path)).header(CONTENT_TYPE, "application/json").body(body)).await
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Failure> {
        let limit = self.deadlines.list;
        let read = async {
            let mut response = self.send(request).await?;
            let bytes = read_to_end(&mut response, MAX_JSON_BYTES).await?;
            serde_json::from_slice(&bytes).map_err(|_| Failure::Malformed { reason: "it is not the expected JSON" })
        };
        timeout(limit, read).await.unwrap_or(Err(Failure::Timeout { expected: "response", limit }))
    }

    /// Sends a request for an answer. Returns its response once the headers have arrived, if the status is a success.
    pub(crate) async fn answer(&self, path: &str, body: Bytes, is_incognito: bool) -> Result<Response, Failure> {
        let limit = self.deadlines.first_token;
        let mut request =
            self.http.pooled.post(self.base.join(path)).header(CONTENT_TYPE, "application/json").body(body);
        if is_incognito {
            request = request.header(INCOGNITO, "1");
        }
        let sent = timeout(limit, self.send(request)).await;
        sent.unwrap_or(Err(Failure::Timeout { expected: "response", limit }))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let request = request.header(DAEMON_REQUEST, "1");
        let request = match &self.key {
            Some(key) => request.header(AUTHORIZATION, key.header()),
            None => request,
        };
        let request = request.build().map_err(|error| failure_of(&error))?;
        let mut response = self.execute(request).await.map_err(|error| failure_of(&error))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(Failure::Redirect);
        }
        if !status.is_success() {
            // A response that never ends must not hold the client up.
            let end = Instant::now() + self.deadlines.list;
            let body = read_beginning(&mut response, MAX_ERROR_BYTES, end).await;
            return Err(Failure::Status { status: status.as_u16(), text: self.error_text(&body) });
        }
        Ok(response)
    }

    /// Sends a request, and once more on a new connection if it is soon lost on a reused one.
    async fn execute(&self, request: Request) -> Result<Response, reqwest::Error> {
        let again = request.try_clone();
        let sent_at = Instant::now();
        match (self.http.pooled.execute(request).await, again) {
            (Err(error), Some(again)) if self.connections.has_lost_request(&error, sent_at.elapsed()) => {
                tracing::debug!(remote = self.name, "a kept-alive connection was closed: the request is sent again");
                self.http.single_use.execute(again).await
            }
            (result, _) => result.inspect(|response| self.connections.add(response)),
        }
    }

    /// The text of an error response, or of an error inside a stream, without the server's address.
    pub(crate) fn error_text(&self, body: &[u8]) -> String {
        #[derive(Deserialize)]
        struct Body {
            #[serde(alias = "detail", alias = "message")]
            error: serde_json::Value,
        }
        let text = match serde_json::from_slice(body) {
            Ok(Body { error: serde_json::Value::String(text) }) => text,
            Ok(Body { error }) => match error.get("message").and_then(serde_json::Value::as_str) {
                Some(message) => message.to_owned(),
                None => error.to_string(),
            },
            Err(_) => String::from_utf8_lossy(body).into_owned(),
        };
        self.redacted(text.trim())
    }

    /// A text of the server: its beginning, on one line, without the API key, and without the server's address as
    /// [`BaseUrl::redact`] finds it. The text is cut afterwards, so that no part of a key or an address is left at its end.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let line = match &self.key {
            Some(RemoteKey(key)) => line.replace(key, KEY_SUBSTITUTE),
            None => line,
        };
        self.base.redact(&line, &self.name).chars().take(MAX_ERROR_CHARS).collect()
    }
}

/// Omits the key and the connections.
impl fmt::Debug for UpstreamClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamClient").field("name", &self.name).field("base", &self.base).finish_non_exhaustive()
    }
}

/// Reads a whole body.
async fn read_to_end(response: &mut Response, limit_bytes: usize) -> Result<Vec<u8>, Failure> {
    let mut read = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failure_of(&error))? {
        if read.len() + chunk.len() > limit_bytes {
            return Err(Failure::TooLarge { limit_bytes });
        }
        read.extend_from_slice(&chunk);
    }
    Ok(read)
}

/// Reads the beginning of a body, as far as it arrives before `end`.
async fn read_beginning(response: &mut Response, limit_bytes: usize, end: Instant) -> Vec<u8> {
    let mut read = Vec::new();
    while let Ok(Ok(Some(chunk))) = timeout_at(end, response.chunk()).await {
        read.extend_from_slice(&chunk);
        if read.len() >= limit_bytes {
            read.truncate(limit_bytes);
            break;
        }
    }
    read
}

/// Classifies an error of the transport. Only its innermost cause is kept: the outer ones repeat the URL.
pub(crate) fn failure_of(error: &reqwest::Error) -> Failure {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let detail = cause.to_string();
    if error.is_connect() { Failure::Connect { detail } } else { Failure::Closed { detail } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_checked_and_never_shown() {
        let key = RemoteKey::new("sk-secret").unwrap();
        assert!(!format!("{key:?} {:?}", key.header()).contains("secret"), "{key:?}");
        for text in ["", "a b", "a\nb", "é", &"x".repeat(5000)] {
            assert_eq!(RemoteKey::new(text), None, "{text:?}");
        }
    }

    #[test]
    fn error_texts_of_all_servers_are_found() {
        let base = "http://10.0.0.7:8000".parse().unwrap();
        let client = UpstreamClient::new(crate::upstream::tests::http(), "gpu", base, None, Deadlines::default());
        let check = |body: &str, expected: &str| assert_eq!(client.error_text(body.as_bytes()), expected, "{body}");
        check(r#"{"error":"model 'x' not found"}"#, "model 'x' not found");
        check(r#"{"error":{"message":"no model x","type":"invalid"}}"#, "no model x");
        check(r#"{"object":"error","message":"no model x"}"#, "no model x");
        check(r#"{"detail":"Not Found"}"#, "Not Found");
        check("<h1>Bad\nGateway</h1> 10.0.0.7:8000", "<h1>Bad Gateway</h1> gpu");
        assert_eq!(client.error_text("x".repeat(9000).as_bytes()).len(), MAX_ERROR_CHARS);
        for spaces in MAX_ERROR_CHARS - 20..=MAX_ERROR_CHARS {
            let text = client.error_text(format!("{}http://10.0.0.7:8000/v1", "x".repeat(spaces)).as_bytes());
            assert!(!text.contains("10."), "an address at the end is not cut before it is found: {text}");
        }
    }

    #[test]
    fn error_texts_do_not_quote_the_key() {
        let base = "http://10.0.0.7:8000".parse().unwrap();
        let key = RemoteKey::new("sk-0123456789abcdef");
        let client = UpstreamClient::new(crate::upstream::tests::http(), "gpu", base, key, Deadlines::default());
        let text = client.error_text(br#"{"error":{"message":"Incorrect API key: sk-0123456789abcdef."}}"#);
        assert_eq!(text, "Incorrect API key: [API key].");
        for spaces in MAX_ERROR_CHARS - 20..=MAX_ERROR_CHARS {
            let text = client.error_text(format!("{}sk-0123456789abcdef", "x".repeat(spaces)).as_bytes());
            assert!(!text.contains("sk"), "a key at the end is not cut before it is found: {text}");
        }
    }
}
