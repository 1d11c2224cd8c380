//! Small servers for the tests of this crate: each answers by one function and remembers what it was asked.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use cairn_store::ModelRef;

use crate::{Registry, SignIn, Transport, TransportConfig};

/// A question as a server got it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// Path and query; the whole address when a proxy is asked.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// `GET /v2/...`, for comparison.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }
}

/// A server of this process, gone when it is dropped.
pub(crate) struct Served {
    /// `127.0.0.1:port`.
    pub(crate) place: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Served {
    /// Begins to answer by `answer`.
    pub(crate) async fn by(answer: impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::slowly(move |seen| {
            let answer = Arc::clone(&answer);
            async move { answer(&seen) }
        })
        .await
    }

    /// The same where an answer takes its time.
    pub(crate) async fn slowly<F: Future<Output = Response<Body>> + Send>(
        answer: impl Fn(Seen) -> F + Send + Sync + 'static,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
        let place = listener.local_addr().expect("it is bound").to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let router = router(Arc::clone(&seen), answer);
        let task =
            tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves until it is dropped") });
        Self { place, seen, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.place)
    }

    /// Everything that it was asked, in order.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panics while it holds this").clone()
    }

    /// Methods and targets of everything that it was asked.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().iter().map(Seen::line).collect()
    }

    /// A client of it.
    pub(crate) fn registry(&self, sign_in: SignIn) -> Registry {
        Registry::at(&self.url(""), false, &transport(), sign_in).expect("loopback may be plain http")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The routes of a server: every question goes to one function.
pub(crate) fn router<F: Future<Output = Response<Body>> + Send>(
    seen: Arc<Mutex<Vec<Seen>>>,
    answer: impl Fn(Seen) -> F + Send + Sync + 'static,
) -> Router {
    let answer = Arc::new(answer);
    Router::new().fallback(move |request: Request| {
        let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
        async move {
            let (parts, body) = request.into_parts();
            // A client may hang up in the middle of its body; what came is remembered all the same.
            let body = axum::body::to_bytes(body, 64 << 20).await.unwrap_or_default();
            let asked =
                Seen { method: parts.method.to_string(), target: parts.uri.to_string(), headers: parts.headers, body };
            seen.lock().expect("no test panics while it holds this").push(asked.clone());
            answer(asked).await
        }
    })
}

/// An answer with headers and a body.
pub(crate) fn reply(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body.into()).expect("the test's headers are right")
}

/// The time by the clock of every test: 2026-01-01T00:00:00Z.
pub(crate) fn new_year() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

/// A transport's settings with short time-outs.
pub(crate) fn config() -> TransportConfig {
    let mut config = TransportConfig::new("cairn/test", Arc::new(new_year));
    config.connect_timeout = Duration::from_secs(5);
    config.answer_timeout = Duration::from_secs(5);
    config
}

pub(crate) fn transport() -> Transport {
    Transport::new(config()).expect("the settings are right")
}

/// The model that most tests ask for.
pub(crate) fn model() -> ModelRef {
    "library/m:latest".parse().expect("it is a name")
}
