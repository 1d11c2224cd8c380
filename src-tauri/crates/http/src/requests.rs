//! Log of the last requests and their clients, in memory only: time, client, path, status and usage. It never contains
//! prompts, answers or query strings.
//!
//! The log skips requests of Cairn's own programs about the daemon, unless they run a model. Otherwise the page that
//! shows the log would fill it. It also skips CORS preflight requests.

mod entry;
mod logged_body;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::Response;
use cairn_wire::Timestamp;
use cairn_wire::app::{LoggedRequest, ServerClient};
use tokio::sync::watch;

use crate::Server;
use entry::LogEntry;
pub(crate) use entry::LogHandle;
use logged_body::LoggedBody;

/// Limit of logged requests. A new request evicts the oldest.
const MAX_REQUESTS: usize = 500;
/// Limit of logged clients. A new client evicts the least recently seen.
const MAX_CLIENTS: usize = 64;
const MAX_NAME_CHARS: usize = 40;
const MAX_PATH_CHARS: usize = 200;
/// Client name of Cairn's own programs.
const OWN_CLIENT: &str = "cairn";
/// Name of a client without a usable `User-Agent`.
const UNKNOWN_CLIENT: &str = "unknown";

/// Bounded log of requests and clients.
pub(crate) struct RequestLog {
    entries: Mutex<Entries>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Entries {
    last_id: u64,
    /// From oldest to newest.
    requests: VecDeque<Arc<Mutex<LogEntry>>>,
    /// From least to most recently seen.
    clients: Vec<ServerClient>,
}

impl Default for RequestLog {
    fn default() -> Self {
        Self { entries: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl RequestLog {
    /// Returns the logged requests from newest to oldest.
    pub(crate) fn requests(&self) -> Vec<LoggedRequest> {
        self.entries().requests.iter().rev().map(|entry| lock(entry).snapshot()).collect()
    }

    /// Returns the logged clients from most to least recently seen.
    pub(crate) fn clients(&self) -> Vec<ServerClient> {
        self.entries().clients.iter().rev().cloned().collect()
    }

    /// Returns a receiver that is notified of each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, entry: &Arc<Mutex<LogEntry>>) {
        let mut entries = self.entries();
        entries.last_id += 1;
        let id = entries.last_id;
        let client = {
            let mut entry = lock(entry);
            entry.request.id = id;
            entry.client()
        };
        entries.requests.push_back(Arc::clone(entry));
        let surplus = entries.requests.len().saturating_sub(MAX_REQUESTS);
        entries.requests.drain(..surplus);
        let is_same = |other: &ServerClient| other.name == client.name && other.address == client.address;
        let count = entries.clients.iter().position(is_same).map(|index| entries.clients.remove(index).requests);
        entries.clients.push(ServerClient { requests: count.unwrap_or(0) + 1, ..client });
        let surplus = entries.clients.len().saturating_sub(MAX_CLIENTS);
        entries.clients.drain(..surplus);
        drop(entries);
        self.notify();
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

/// Middleware that logs a request until its response is sent or its client disconnects.
pub(crate) async fn log(State(server): State<Server>, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
    let bearer = text(header::AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
    let is_own = bearer.is_some_and(|token| server.is_authorized(token));
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let path = request.uri().path();
    let is_about_daemon = ["/app/", "/ui"].iter().any(|start| path.starts_with(start)) || path == crate::metrics::PATH;
    let is_own_query = is_own && (request.method() == Method::GET || path == "/api/show");
    let is_preflight = request.method() == Method::OPTIONS;
    let entry = LoggedRequest {
        id: 0,
        at: Timestamp(server.app().clock().now()),
        client: if is_own { OWN_CLIENT.to_owned() } else { name(text(header::USER_AGENT).unwrap_or_default()) },
        address: peer.map(|ip: IpAddr| ip.to_canonical().to_string()).unwrap_or_default(),
        method: request.method().as_str().chars().take(MAX_NAME_CHARS).collect(),
        path: path.chars().take(MAX_PATH_CHARS).collect(),
        status: 0,
        running: true,
        ms: 0,
        model: None,
        first_token_ms: None,
        prompt_tokens: None,
        cached_tokens: None,
        answer_tokens: None,
        tokens_per_second: None,
    };
    let handle = LogHandle::new(server.clone(), entry, is_own, Instant::now());
    if !is_about_daemon && !is_own_query && !is_preflight {
        handle.list();
    }
    request.extensions_mut().insert(handle.clone());
    let response = next.run(request).await;
    handle.set_status(response.status());
    response.map(|body| axum::body::Body::new(LoggedBody::new(body, handle)))
}

/// Returns the product name of a `User-Agent`, without its version (RFC 9110, section 10.1.5).
fn name(agent: &str) -> String {
    let word = agent.split([' ', '/', '(', ';', ',']).next().unwrap_or_default();
    let name: String = word.chars().filter(char::is_ascii_graphic).take(MAX_NAME_CHARS).collect();
    if name.is_empty() { UNKNOWN_CLIENT.to_owned() } else { name }
}

fn lock(entry: &Mutex<LogEntry>) -> MutexGuard<'_, LogEntry> {
    entry.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_the_product_of_the_user_agent() {
        let check = |agent: &str, expected: &str| assert_eq!(name(agent), expected, "{agent:?}");
        check("curl/8.5.0", "curl");
        check("ollama/0.5.1 (amd64 linux) Go/go1.22", "ollama");
        check("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla");
        check("", "unknown");
        check("\u{1b}[31m", "[31m");
        check(&"x".repeat(500), &"x".repeat(MAX_NAME_CHARS));
    }
}
