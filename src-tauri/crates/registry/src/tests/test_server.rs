//! HTTP servers for tests: each responds with one function and records its requests.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use cairn_store::ModelRef;

use crate::{Credentials, Registry, Transport, TransportConfig};

/// A request as the server received it.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) method: String,
    /// Path and query; the absolute URL if the server is used as a proxy.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl RecordedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Method and target: `GET /v2/...`.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }
}

/// An HTTP server; dropping it stops it.
pub(crate) struct TestServer {
    /// `127.0.0.1:port`.
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
    task: tokio::task::JoinHandle<()>,
}

impl TestServer {
    /// Starts a server that responds with `answer`.
    pub(crate) async fn start(answer: impl Fn(&RecordedRequest) -> Response<Body> + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::start_async(move |seen| {
            let answer = Arc::clone(&answer);
            async move { answer(&seen) }
        })
        .await
    }

    /// Like [`Self::start`] with an async function.
    pub(crate) async fn start_async<F: Future<Output = Response<Body>> + Send>(
        answer: impl Fn(RecordedRequest) -> F + Send + Sync + 'static,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
        let address = listener.local_addr().expect("the listener is bound").to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let router = router(Arc::clone(&seen), answer);
        let task =
            tokio::spawn(
                async move { axum::serve(listener, router).await.expect("the server runs until it is dropped") },
            );
        Self { address, seen, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All requests, in order.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.seen.lock().expect("no test panics with the lock").clone()
    }

    /// Methods and targets of all requests.
    pub(crate) fn request_lines(&self) -> Vec<String> {
        self.requests().iter().map(RecordedRequest::line).collect()
    }

    /// A client of this server.
    pub(crate) fn registry(&self, sign_in: Credentials) -> Registry {
        Registry::from_address(&self.url(""), false, &transport(), sign_in).expect("loopback may be plain http")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A router that sends every request to one function.
pub(crate) fn router<F: Future<Output = Response<Body>> + Send>(
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
    answer: impl Fn(RecordedRequest) -> F + Send + Sync + 'static,
) -> Router {
    let answer = Arc::new(answer);
    Router::new().fallback(move |request: Request| {
        let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
        async move {
            let (parts, body) = request.into_parts();
            // A client may close the connection during the body; record the request anyway.
            let body = axum::body::to_bytes(body, 64 << 20).await.unwrap_or_default();
            let request = RecordedRequest {
                method: parts.method.to_string(),
                target: parts.uri.to_string(),
                headers: parts.headers,
                body,
            };
            seen.lock().expect("no test panics with the lock").push(request.clone());
            answer(request).await
        }
    })
}

/// A response with headers and a body.
pub(crate) fn reply(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.into()).expect("the test's headers are valid")
}

/// The time of all tests: 2026-01-01T00:00:00Z.
pub(crate) fn fixed_now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

/// Transport settings with short timeouts.
pub(crate) fn config() -> TransportConfig {
    let mut config = TransportConfig::new("cairn/test", Arc::new(fixed_now));
    config.connect_timeout = Duration::from_secs(5);
    config.response_timeout = Duration::from_secs(5);
    config
}

pub(crate) fn transport() -> Transport {
    Transport::new(config()).expect("the settings are valid")
}

/// The model of most tests.
pub(crate) fn model() -> ModelRef {
    "library/m:latest".parse().expect("a valid name")
}
