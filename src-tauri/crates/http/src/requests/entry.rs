//! One request of the log, as whoever answers it writes on it.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use cairn_app::inference::Cost;
use cairn_wire::app::{LoggedRequest, ServerClient};

use super::lock;
use crate::Server;

/// Letters of a model's name: anybody may ask for any.
const MAX_MODEL_LETTERS: usize = 200;

/// What is known of a request.
pub(super) struct Entry {
    pub(super) told: LoggedRequest,
    own: bool,
    began: Instant,
}

impl Entry {
    pub(super) fn told(&self) -> LoggedRequest {
        let mut told = self.told.clone();
        if told.running {
            told.ms = ms(self.began);
        }
        told
    }

    pub(super) fn client(&self) -> ServerClient {
        let LoggedRequest { client, address, at, .. } = &self.told;
        ServerClient { name: client.clone(), address: address.clone(), own: self.own, last_seen_at: *at, requests: 0 }
    }
}

/// A request of the log. Handlers that ask a model take it as an argument and say what came of it.
#[derive(Clone)]
pub(crate) struct Logged(Option<Arc<Inner>>);

struct Inner {
    server: Server,
    entry: Arc<Mutex<Entry>>,
    shown: AtomicBool,
}

impl Logged {
    pub(super) fn new(server: Server, told: LoggedRequest, own: bool, began: Instant) -> Self {
        let entry = Arc::new(Mutex::new(Entry { told, own, began }));
        Self(Some(Arc::new(Inner { server, entry, shown: AtomicBool::new(false) })))
    }

    /// Puts it among those that are shown.
    pub(super) fn show(&self) {
        if let Some(inner) = &self.0
            && !inner.shown.swap(true, Ordering::Relaxed)
        {
            inner.server.requests().show(&inner.entry);
        }
    }

    /// A model is asked.
    pub(crate) fn asks(&self, model: &str) {
        let model = model.chars().take(MAX_MODEL_LETTERS).collect();
        self.write(|entry| entry.told.model = Some(model));
        self.show();
    }

    /// A piece of the answer is there.
    pub(crate) fn piece(&self) {
        let is_first = self.0.as_ref().is_some_and(|inner| lock(&inner.entry).told.first_token_ms.is_none());
        if is_first {
            self.write(|entry| entry.told.first_token_ms = Some(ms(entry.began)));
        }
    }

    /// The answer is complete, and cost so much.
    pub(crate) fn cost(&self, cost: &Cost) {
        self.write(|entry| {
            let told = &mut entry.told;
            told.prompt_tokens = Some(cost.prompt_tokens);
            told.cached_tokens = Some(cost.cached_tokens);
            told.answer_tokens = Some(cost.answer_tokens);
            // An answer in one piece does not show when it began.
            let before = cost.total_ns.saturating_sub(cost.answer_ns) / 1_000_000;
            told.first_token_ms = told.first_token_ms.or(Some(before));
            let seconds = cost.answer_ns as f64 / 1e9;
            told.tokens_per_second = (seconds > 0.0).then_some(cost.answer_tokens as f64 / seconds);
        });
    }

    pub(super) fn answered(&self, status: StatusCode) {
        self.write(|entry| entry.told.status = status.as_u16());
    }

    /// All of it has been sent, or its client went away.
    pub(super) fn ended(&self) {
        self.write(|entry| (entry.told.running, entry.told.ms) = (false, ms(entry.began)));
    }

    fn write(&self, change: impl FnOnce(&mut Entry)) {
        let Some(inner) = &self.0 else { return };
        change(&mut lock(&inner.entry));
        if inner.shown.load(Ordering::Relaxed) {
            inner.server.requests().tell();
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Logged {
    type Rejection = Infallible;

    /// A request that came by another way than the router is in no log.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or(Self(None)))
    }
}

fn ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
