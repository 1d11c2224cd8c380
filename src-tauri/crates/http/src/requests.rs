//! Middleware that logs requests.
//!
//! It skips requests of Cairn's own programs about the daemon, unless they run a model. Otherwise the page that shows
//! the log would fill it. It also skips CORS preflight requests.

mod logged_body;

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use cairn_wire::Timestamp;
use cairn_wire::app::LoggedRequest;

use crate::credential::Credential;
use crate::request_log::LogHandle;
use crate::{Server, metrics};
use logged_body::LoggedBody;

const MAX_NAME_CHARS: usize = 40;
const MAX_PATH_CHARS: usize = 200;
/// Client name of Cairn's own programs.
const OWN_CLIENT: &str = "cairn";
/// Name of a client without a usable `User-Agent`.
const UNKNOWN_CLIENT: &str = "unknown";

/// Logs a request until its response is sent or its client disconnects.
pub(crate) async fn log(State(server): State<Server>, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    let credential = request.extensions().get::<Credential>();
    let is_own = matches!(credential, Some(Credential::Token));
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let path = request.uri().path();
    let is_about_daemon = ["/app/", "/ui"].iter().any(|start| path.starts_with(start)) || path == metrics::PATH;
    let is_own_query = is_own && (request.method() == Method::GET || path == "/api/show");
    let is_preflight = request.method() == Method::OPTIONS;
    let entry = LoggedRequest {
        id: 0,
        at: Timestamp(server.app().clock().now()),
        client: if is_own { OWN_CLIENT.to_owned() } else { client_name(headers) },
        address: peer.map(|ip: IpAddr| ip.to_canonical().to_string()).unwrap_or_default(),
        key: credential.and_then(Credential::key).map(|key| key.name.clone()),
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
        truncated: None,
    };
    let handle = LogHandle::new(server.request_log().clone(), entry, is_own, Instant::now());
    if !is_about_daemon && !is_own_query && !is_preflight {
        handle.list();
    }
    request.extensions_mut().insert(handle.clone());
    let mut unanswered = Unanswered(Some(handle.clone()));
    let response = next.run(request).await;
    unanswered.0 = None;
    handle.set_status(response.status());
    response.map(|body| axum::body::Body::new(LoggedBody::new(body, handle)))
}

/// Returns the name of the program that sent a request.
pub(crate) fn client_name(headers: &HeaderMap) -> String {
    name(headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default())
}

/// A request without a response. If this is dropped, the client disconnected, which ends the request.
struct Unanswered(Option<LogHandle>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            // The status that Ollama and nginx log.
            handle.set_status(StatusCode::from_u16(499).expect("499 is a valid status"));
            handle.finish();
        }
    }
}

/// Returns the product name of a `User-Agent`, without its version (RFC 9110, section 10.1.5).
fn name(agent: &str) -> String {
    let word = agent.split([' ', '/', '(', ';', ',']).next().unwrap_or_default();
    let name: String = word.chars().filter(char::is_ascii_graphic).take(MAX_NAME_CHARS).collect();
    if name.is_empty() { UNKNOWN_CLIENT.to_owned() } else { name }
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
