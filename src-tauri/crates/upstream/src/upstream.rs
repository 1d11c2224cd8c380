//! The state of one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cairn_wire::ollama::ShowResponse;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::affinity::{Affinity, Prefix, SERVER_BLOCKS};
use crate::breaker::{Breaker, Permit};
use crate::client::UpstreamClient;
use crate::counters::{Counters, Counts, add};
use crate::failure::Failure;
use crate::models::{self, ListedModel};
use crate::route::Candidate;
use crate::server_kind::ServerKind;

/// Result of the last check of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It was not checked yet.
    Unknown,
    /// It listed its models.
    Up,
    /// It did not list its models.
    Down(Failure),
}

/// One server: its models, its health, and what we sent to it.
#[derive(Debug)]
pub struct Upstream {
    name: String,
    kind: ServerKind,
    pub(crate) client: UpstreamClient,
    state: Mutex<State>,
    outstanding: AtomicUsize,
    pub(crate) counters: Counters,
}

#[derive(Debug)]
struct State {
    breaker: Breaker,
    /// The last failure that counts as an outage.
    last_outage: Option<Failure>,
    affinity: Affinity,
    health: Health,
    /// How long the server took to list its models in the last check; `None` if it did not.
    latency: Option<Duration>,
    models: Arc<Vec<ListedModel>>,
}

impl Upstream {
    /// A server of this kind that was not checked yet. Its name is in errors and metrics.
    #[must_use]
    pub fn new(name: &str, kind: ServerKind, client: UpstreamClient) -> Self {
        let state = State {
            breaker: Breaker::default(),
            last_outage: None,
            affinity: Affinity::new(SERVER_BLOCKS),
            health: Health::Unknown,
            latency: None,
            models: Arc::default(),
        };
        Self {
            name: name.to_owned(),
            kind,
            client,
            state: Mutex::new(state),
            outstanding: AtomicUsize::new(0),
            counters: Counters::default(),
        }
    }

    /// The server's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the server is.
    #[must_use]
    pub fn kind(&self) -> ServerKind {
        self.kind
    }

    /// The models that the server listed last.
    #[must_use]
    pub fn models(&self) -> Arc<Vec<ListedModel>> {
        Arc::clone(&self.state.lock().models)
    }

    /// Result of the last check.
    #[must_use]
    pub fn health(&self) -> Health {
        self.state.lock().health.clone()
    }

    /// Whether the circuit breaker holds requests back.
    #[must_use]
    pub fn is_circuit_open(&self) -> bool {
        self.state.lock().breaker.is_open()
    }

    /// The last outage, while the circuit is open or half open.
    #[must_use]
    pub fn circuit_failure(&self) -> Option<Failure> {
        let state = self.state.lock();
        state.breaker.is_open().then(|| state.last_outage.clone()).flatten()
    }

    /// How long the server took to list its models in the last check; `None` if it did not list them.
    #[must_use]
    pub fn latency(&self) -> Option<Duration> {
        self.state.lock().latency
    }

    /// Our requests that the server has not completed.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// The counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// Lists the server's models, and so checks its health. If the server was not up before, an open circuit becomes half open.
    ///
    /// # Errors
    /// If the server does not list them. The models of the last successful check stay.
    pub async fn check(&self) -> Result<(), Failure> {
        let start = Instant::now();
        let mut listed = models::list(&self.client, self.kind).await;
        let latency = start.elapsed();
        if let Ok(models) = &mut listed
            && self.kind.has_ollama_api()
        {
            models::complete(&self.client, models, &self.models()).await;
        }
        let mut state = self.state.lock();
        match listed {
            Ok(models) => {
                state.models = Arc::new(models);
                state.latency = Some(latency);
                if std::mem::replace(&mut state.health, Health::Up) != Health::Up {
                    state.breaker.half_open(Instant::now());
                    tracing::info!(remote = self.name, "the remote is available");
                }
                Ok(())
            }
            Err(failure) => {
                if !matches!(state.health, Health::Down(_)) {
                    tracing::warn!(remote = self.name, reason = failure.detail(), "the remote is not available");
                }
                state.health = Health::Down(failure.clone());
                state.latency = None;
                Err(failure)
            }
        }
    }

    /// Describes a model, as the server spells its name; `None` if the server's API has no descriptions.
    ///
    /// # Errors
    /// If the server does not describe it.
    pub async fn show(&self, model: &str) -> Result<Option<ShowResponse>, Failure> {
        if !self.kind.has_ollama_api() {
            return Ok(None);
        }
        models::show(&self.client, model).await.map(Some)
    }

    /// What routing needs to know for a conversation; `None` if the circuit is open.
    pub(crate) fn candidate(&self, prefix: &Prefix, now: Instant) -> Option<Candidate> {
        let state = self.state.lock();
        state.breaker.is_ready(now).then(|| Candidate {
            is_up: !matches!(state.health, Health::Down(_)),
            outstanding: self.outstanding(),
            matching: state.affinity.matching(prefix),
            blocks: state.affinity.blocks(),
        })
    }

    /// Time until the circuit lets a request through.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.state.lock().breaker.wait(now)
    }

    /// Begins a request for a conversation. `None` if the circuit has opened since. With `record`, the hashes of the conversation are stored.
    pub(crate) fn begin(self: &Arc<Self>, prefix: &Prefix, record: bool, now: Instant) -> Option<OpenRequest> {
        let mut state = self.state.lock();
        let permit = state.breaker.begin(now)?;
        let (blocks, matching) = (prefix.blocks().len(), state.affinity.matching(prefix));
        if record {
            // At once, so that requests with the same beginning that arrive before the first token go to the same server.
            state.affinity.record(prefix);
        }
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        Some(OpenRequest { upstream: Arc::clone(self), permit, blocks, matching, has_result: false })
    }
}

/// A request that the server has not completed. Without a result, dropping it counts as a cancellation.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    upstream: Arc<Upstream>,
    permit: Permit,
    blocks: usize,
    matching: usize,
    has_result: bool,
}

impl OpenRequest {
    /// Counts the request, before it is sent.
    pub(crate) fn send(&self) {
        let counters = &self.upstream.counters;
        add(&counters.requests, 1);
        add(&counters.blocks, self.blocks as u64);
        add(&counters.matching_blocks, self.matching as u64);
    }

    /// The request is not sent after all.
    pub(crate) fn withdraw(&mut self) {
        self.has_result = true;
        self.upstream.state.lock().breaker.cancel(self.permit);
    }

    /// The server responds, or refuses the request without being out of order.
    pub(crate) fn succeed(&mut self) {
        self.has_result = true;
        self.upstream.state.lock().breaker.succeed();
    }

    /// The request failed.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        self.has_result = true;
        let upstream = &self.upstream;
        tracing::warn!(remote = upstream.name, reason = failure.detail(), "a request to the remote failed");
        let mut state = upstream.state.lock();
        if matches!(failure, Failure::Connect { .. }) {
            // The server's process has ended, and with it the KV cache in its memory.
            state.affinity.clear();
        }
        if !failure.is_outage() {
            state.breaker.cancel(self.permit);
            if failure.is_of_request() {
                return;
            }
        } else {
            state.last_outage = Some(failure.clone());
            if state.breaker.fail(self.permit, Instant::now()) {
                add(&upstream.counters.circuit_openings, 1);
                tracing::warn!(remote = upstream.name, "the remote failed repeatedly; it gets no requests for a while");
            }
        }
        drop(state);
        add(&upstream.counters.failed, 1);
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.upstream.outstanding.fetch_sub(1, Ordering::Relaxed);
        if !self.has_result {
            self.upstream.state.lock().breaker.cancel(self.permit);
            add(&self.upstream.counters.cancelled, 1);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::client::{Deadlines, HttpClients};

    /// HTTP clients for plain HTTP without redirects.
    pub(crate) fn http() -> HttpClients {
        let provider = rustls::crypto::ring::default_provider();
        let tls = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .expect("ring supports all TLS versions")
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let builder = || {
            let builder = reqwest::Client::builder().tls_backend_preconfigured(tls.clone()).no_proxy();
            builder.redirect(reqwest::redirect::Policy::none())
        };
        let single_use = builder().pool_max_idle_per_host(0).build().expect("a client");
        HttpClients { pooled: builder().build().expect("a client"), single_use }
    }

    fn upstream() -> Arc<Upstream> {
        let base = "http://127.0.0.1:9".parse().unwrap();
        let client = UpstreamClient::new(http(), "gpu", base, None, Deadlines::default());
        Arc::new(Upstream::new("gpu", ServerKind::OpenAi, client))
    }

    fn connect() -> Failure {
        Failure::Connect { detail: String::new() }
    }

    #[test]
    fn open_requests_are_counted_until_they_are_dropped() {
        let (upstream, prefix, now) = (upstream(), Prefix::of_hashes(vec![1, 2]), Instant::now());
        let first = upstream.begin(&prefix, true, now).unwrap();
        let candidate = upstream.candidate(&prefix, now).unwrap();
        assert_eq!((candidate.outstanding, candidate.matching), (1, 2), "recorded at once");
        drop(first);
        assert_eq!((upstream.outstanding(), upstream.counts().cancelled), (0, 1));
        let other = Prefix::of_hashes(vec![3]);
        drop(upstream.begin(&other, false, now));
        assert_eq!(upstream.candidate(&other, now).unwrap().matching, 0, "an incognito conversation leaves nothing");
    }

    #[test]
    fn failed_connections_open_the_circuit_and_clear_the_prefixes() {
        let (upstream, prefix, now) = (upstream(), Prefix::of_hashes(vec![1]), Instant::now());
        for _ in 0..3 {
            assert_eq!(upstream.circuit_failure(), None, "closed");
            upstream.begin(&prefix, true, now).unwrap().fail(&connect());
        }
        assert_eq!(upstream.circuit_failure(), Some(connect()));
        assert!(upstream.is_circuit_open() && upstream.candidate(&prefix, now).is_none(), "open");
        assert!(upstream.begin(&prefix, true, now).is_none());
        assert_eq!((upstream.counts().failed, upstream.counts().circuit_openings), (3, 1));
        assert_eq!(upstream.state.lock().affinity.blocks(), 0, "the server's memory is gone");
    }

    #[test]
    fn refused_requests_do_not_open_the_circuit() {
        let (upstream, prefix, now) = (upstream(), Prefix::of_hashes(Vec::new()), Instant::now());
        for status in [400, 429, 404, 503] {
            for _ in 0..5 {
                let failure = Failure::Status { status, text: String::new() };
                upstream.begin(&prefix, true, now).unwrap().fail(&failure);
            }
        }
        assert!(!upstream.is_circuit_open());
        assert_eq!(upstream.counts().failed, 15, "a wrong request is not a failure of the server");
    }
}
