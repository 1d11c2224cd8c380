//! The daemon's HTTP interfaces: Ollama's API under `/api`, the OpenAI and Anthropic APIs under `/v1`, the API of Cairn's own clients
//! under `/app`, a registry under `/v2`, Prometheus metrics at `/metrics`, and the browser interface under `/ui`.
//!
//! Every endpoint is one file: it parses the request, calls a use case of `cairn-app` and renders the response. Shared
//! modules: access control ([`access`]), request bodies ([`body`]), streamed responses ([`streaming`]) and error responses
//! ([`error`]).
#![forbid(unsafe_code)]

mod access;
mod activity;
mod anthropic;
mod app;
mod body;
mod body_memory;
mod cache_scope;
mod client;
mod client_inference;
mod credential;
mod daemon_request;
mod error;
mod images;
mod metrics;
mod ndjson;
mod ollama;
mod openai;
mod operations;
mod pace;
mod panics;
mod relay;
mod request_log;
mod requests;
mod revocable_body;
mod sampling;
mod server;
mod session;
mod session_store;
mod share;
mod sse;
mod streaming;
mod tools;
mod ui;
mod v2;
mod warnings;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};

use cairn_wire::{ErrorCode, excerpt};

use body_memory::BodyMemory;
use client::ClientInfo;
use error::ApiError;

pub use access::document as access_table;
pub use activity::{Activity, ActivityGuard};
pub use app::cache::fsck::response as checkup;
pub use client::LocalAddress;
pub use error::{chat_error, collection_error};
pub use operations::document as openapi_document;
pub use server::Server;

/// Paths that accept HEAD. All others return 405, as in Ollama.
const HEAD_PATHS: [&str; 3] = ["/", "/api/version", "/api/tags"];
/// Prefixes of paths that accept HEAD.
const HEAD_PREFIXES: [&str; 3] = ["/api/blobs/", ui::PATH, "/v2"];

/// Random bytes of a response's identifier.
const RESPONSE_ID_BYTES: usize = 12;

/// Returns the router of all endpoints.
pub fn router(server: Server) -> Router {
    let routes = Router::new()
        .merge(ollama::routes())
        .merge(app::routes())
        .merge(openai::routes())
        .merge(anthropic::routes())
        .merge(metrics::routes())
        .merge(operations::routes())
        .merge(session::routes())
        .merge(ui::routes())
        .merge(v2::routes());
    with_layers(routes, server)
}

/// Adds access control, logs and error responses to routes.
fn with_layers(routes: Router<Server>, server: Server) -> Router {
    routes
        .fallback(async |request: Request| path_not_found(request.uri().path()))
        .method_not_allowed_fallback(async || method_not_allowed())
        .layer(from_fn_with_state(server.clone(), hold_body_memory))
        .layer(from_fn_with_state(server.clone(), access::check))
        .layer(from_fn(panics::respond))
        .layer(from_fn(error::shape_errors))
        .layer(map_response(add_nosniff))
        .layer(from_fn_with_state(server.clone(), requests::log))
        .layer(from_fn_with_state(server.clone(), credential::identify))
        .layer(from_fn_with_state(server.clone(), count))
        .with_state(server)
}

/// Middleware that frees the memory of a request's body when its handler ends.
async fn hold_body_memory(State(server): State<Server>, mut request: Request, next: Next) -> Response {
    let client = request.extensions().get::<ClientInfo>().filter(|client| !client.is_local);
    let memory = BodyMemory::new(server.bodies(), client.map(|client| share::network(client.ip).into()));
    request.extensions_mut().insert(memory.clone());
    let response = next.run(request).await;
    drop(memory);
    response
}

fn path_not_found(path: &str) -> Response {
    let text = format!(
        "404 page not found: this server has no path {:?}; it has Ollama's API under /api, the APIs of OpenAI and \
         Anthropic under /v1 ({}) and the interface at /ui/",
        excerpt(path),
        operations::paths_below("/v1/").join(", ")
    );
    ApiError::new(StatusCode::NOT_FOUND, ErrorCode::NotFound, text).into_response()
}

fn method_not_allowed() -> Response {
    let text = "405 method not allowed: this path exists, but not for this method";
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, ErrorCode::InvalidRequest, text).into_response()
}

/// Forbids browsers to guess a content type: no answer and no blob runs as a script.
async fn add_nosniff(mut response: Response) -> Response {
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Middleware that counts active requests and rejects HEAD on paths without it.
async fn count(State(server): State<Server>, request: Request, next: Next) -> Response {
    let _guard = server.activity().begin();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let has_head = HEAD_PATHS.contains(&&*path) || HEAD_PREFIXES.iter().any(|prefix| path.starts_with(prefix));
    let response = match response.status().is_success() && method == Method::HEAD && !has_head {
        true => method_not_allowed(),
        false => response,
    };
    tracing::debug!(%method, path = %excerpt(&path), status = response.status().as_u16(), "request completed");
    response
}

#[cfg(test)]
mod tests;
