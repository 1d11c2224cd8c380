//! The last requests and who made them, in memory only: when, by whom, which path, how it ended and what it cost. Never what
//! was said, nor a query, which may be words too.
//!
//! What our own programs ask about the daemon itself is left out, unless a model was asked: a screen that shows this list
//! would fill it. So is what a browser asks before a request of another origin (a preflight, of the Fetch standard).

mod entry;
mod watched;

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
pub(crate) use entry::Logged;
use watched::Watched;

/// Requests that are kept.
const MAX_REQUESTS: usize = 500;
/// Clients that are kept.
const MAX_CLIENTS: usize = 64;
/// Letters of a client's name, and of a path.
const MAX_NAME_LETTERS: usize = 40;
const MAX_PATH_LETTERS: usize = 200;
/// What our own programs are called.
const OWN: &str = "cairn";
/// What one is called that does not say.
const NAMELESS: &str = "unknown";

/// The log.
pub(crate) struct Requests {
    kept: Mutex<Kept>,
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Kept {
    next_id: u64,
    /// The oldest first.
    requests: VecDeque<Arc<Mutex<entry::Entry>>>,
    /// The one that asked last comes last.
    clients: Vec<ServerClient>,
}

impl Default for Requests {
    fn default() -> Self {
        Self { kept: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl Requests {
    /// The last requests, the newest first.
    pub(crate) fn last(&self) -> Vec<LoggedRequest> {
        self.kept().requests.iter().rev().map(|entry| lock(entry).told()).collect()
    }

    /// Who asked, the last one first.
    pub(crate) fn clients(&self) -> Vec<ServerClient> {
        self.kept().clients.iter().rev().cloned().collect()
    }

    /// Tells of each change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a request among those that are shown.
    fn show(&self, entry: &Arc<Mutex<entry::Entry>>) {
        let mut kept = self.kept();
        kept.next_id += 1;
        let id = kept.next_id;
        let client = {
            let mut entry = lock(entry);
            entry.told.id = id;
            entry.client()
        };
        kept.requests.push_back(Arc::clone(entry));
        let surplus = kept.requests.len().saturating_sub(MAX_REQUESTS);
        kept.requests.drain(..surplus);
        let is_same = |known: &ServerClient| known.name == client.name && known.address == client.address;
        let before = kept.clients.iter().position(is_same).map(|at| kept.clients.remove(at).requests);
        kept.clients.push(ServerClient { requests: before.unwrap_or(0) + 1, ..client });
        let surplus = kept.clients.len().saturating_sub(MAX_CLIENTS);
        kept.clients.drain(..surplus);
        drop(kept);
        self.tell();
    }

    fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

/// Logs the request until its answer has been sent, or its client has gone away.
pub(crate) async fn log(State(server): State<Server>, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value: &header::HeaderValue| value.to_str().ok());
    let bearer = text(header::AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
    let own = bearer.is_some_and(|token| server.is_own(token));
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let path = request.uri().path();
    let about_daemon = ["/app/", "/ui"].iter().any(|start| path.starts_with(start)) || path == crate::metrics::PATH;
    let looks = own && (request.method() == Method::GET || path == "/api/show") || request.method() == Method::OPTIONS;
    let told = LoggedRequest {
        id: 0,
        at: Timestamp(server.app().clock().now()),
        client: if own { OWN.to_owned() } else { name(text(header::USER_AGENT).unwrap_or_default()) },
        address: peer.map(|ip: IpAddr| ip.to_canonical().to_string()).unwrap_or_default(),
        method: request.method().as_str().chars().take(MAX_NAME_LETTERS).collect(),
        path: path.chars().take(MAX_PATH_LETTERS).collect(),
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
    let logged = Logged::new(server.clone(), told, own, Instant::now());
    if !about_daemon && !looks {
        logged.show();
    }
    request.extensions_mut().insert(logged.clone());
    let response = next.run(request).await;
    logged.answered(response.status());
    response.map(|body| axum::body::Body::new(Watched::new(body, logged)))
}

/// What a program calls itself: the first word of its `User-Agent`, without a version (RFC 9110, section 10.1.5).
fn name(agent: &str) -> String {
    let word = agent.split([' ', '/', '(', ';', ',']).next().unwrap_or_default();
    let name: String = word.chars().filter(char::is_ascii_graphic).take(MAX_NAME_LETTERS).collect();
    if name.is_empty() { NAMELESS.to_owned() } else { name }
}

fn lock(entry: &Mutex<entry::Entry>) -> MutexGuard<'_, entry::Entry> {
    entry.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_called_by_their_own_word() {
        let check = |agent: &str, expected: &str| assert_eq!(name(agent), expected, "{agent:?}");
        check("curl/8.5.0", "curl");
        check("ollama/0.5.1 (amd64 linux) Go/go1.22", "ollama");
        check("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla");
        check("", "unknown");
        check("\u{1b}[31m", "[31m");
        check(&"x".repeat(500), &"x".repeat(MAX_NAME_LETTERS));
    }
}
