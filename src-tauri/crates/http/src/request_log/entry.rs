//! Entry of the request log, and the handle with which middleware and handlers update it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use cairn_wire::Usage;
use cairn_wire::app::{LoggedRequest, ServerClient};
use parking_lot::Mutex;

use super::RequestLog;

/// Limit of a logged model name in characters. Clients choose the name.
const MAX_MODEL_CHARS: usize = 200;

/// Logged request with the time at which it started.
pub(super) struct LogEntry {
    pub(super) request: LoggedRequest,
    is_own: bool,
    started_at: Instant,
}

impl LogEntry {
    /// Returns the request as it is now. A running request has its duration so far.
    pub(super) fn snapshot(&self) -> LoggedRequest {
        let mut request = self.request.clone();
        if request.running {
            request.ms = elapsed_ms(self.started_at);
        }
        request
    }

    /// Returns the client of the request, with a count of 0.
    pub(super) fn client(&self) -> ServerClient {
        let LoggedRequest { client, address, at, .. } = &self.request;
        ServerClient {
            name: client.clone(),
            address: address.clone(),
            own: self.is_own,
            last_seen_at: *at,
            requests: 0,
        }
    }
}

/// Handle of a request's log entry. Handlers that run a model take it as an extractor and record the usage.
#[derive(Clone)]
pub(crate) struct LogHandle(Option<Arc<Inner>>);

struct Inner {
    log: RequestLog,
    entry: Arc<Mutex<LogEntry>>,
    is_listed: AtomicBool,
}

impl LogHandle {
    pub(crate) fn new(log: RequestLog, request: LoggedRequest, is_own: bool, started_at: Instant) -> Self {
        let entry = Arc::new(Mutex::new(LogEntry { request, is_own, started_at }));
        Self(Some(Arc::new(Inner { log, entry, is_listed: AtomicBool::new(false) })))
    }

    /// Adds the entry to the log, once.
    pub(crate) fn list(&self) {
        if let Some(inner) = &self.0
            && !inner.is_listed.swap(true, Ordering::Relaxed)
        {
            inner.log.add(&inner.entry);
        }
    }

    /// Records the requested model and adds the entry to the log.
    pub(crate) fn set_model(&self, model: &str) {
        let model = model.chars().take(MAX_MODEL_CHARS).collect();
        self.update(|entry| entry.request.model = Some(model));
        self.list();
    }

    /// Records the time to the first token. Later calls have no effect.
    pub(crate) fn record_first_token(&self) {
        let is_first = self.0.as_ref().is_some_and(|inner| inner.entry.lock().request.first_token_ms.is_none());
        if is_first {
            self.update(|entry| entry.request.first_token_ms = Some(elapsed_ms(entry.started_at)));
        }
    }

    /// Records the usage of a complete answer.
    pub(crate) fn set_usage(&self, usage: &Usage) {
        self.update(|entry| {
            let request = &mut entry.request;
            request.prompt_tokens = Some(usage.prompt_tokens);
            request.cached_tokens = Some(usage.cached_tokens);
            request.answer_tokens = Some(usage.answer_tokens);
            request.truncated = usage.truncated;
            // An answer without streaming has no recorded first token.
            let first_token = usage.total.saturating_sub(usage.answer);
            request.first_token_ms = request.first_token_ms.or(Some(millis(first_token)));
            let seconds = usage.answer.as_secs_f64();
            request.tokens_per_second = (seconds > 0.0).then_some(usage.answer_tokens as f64 / seconds);
        });
    }

    pub(crate) fn set_status(&self, status: StatusCode) {
        self.update(|entry| entry.request.status = status.as_u16());
    }

    /// Records the end of the request: the response was sent, or the client disconnected.
    pub(crate) fn finish(&self) {
        self.update(|entry| {
            (entry.request.running, entry.request.ms) = (false, elapsed_ms(entry.started_at));
        });
    }

    fn update(&self, change: impl FnOnce(&mut LogEntry)) {
        let Some(inner) = &self.0 else { return };
        change(&mut inner.entry.lock());
        if inner.is_listed.load(Ordering::Relaxed) {
            inner.log.notify();
        }
    }
}

impl<S: Sync> FromRequestParts<S> for LogHandle {
    type Rejection = Infallible;

    /// Extracts the handle that [`crate::requests::log`] added. Without that middleware the handle has no effect.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or(Self(None)))
    }
}

fn elapsed_ms(start: Instant) -> u64 {
    millis(start.elapsed())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
