//! The daemon's HTTP interfaces: Ollama's under `/api`, our own clients' under `/app`, a registry under `/v2`, numbers for
//! Prometheus at `/metrics`, and the interface for browsers under `/ui`.
//!
//! Every endpoint is one file: it parses, calls a use case of `cairn-app` and renders. What all of them share is here:
//! who may ask ([`access`]), how bodies are read ([`body`]), how answers stream ([`ndjson`]) and how errors look
//! ([`error`]).
#![forbid(unsafe_code)]

mod access;
mod activity;
mod app;
mod asker;
mod body;
mod error;
mod metrics;
mod ndjson;
mod ollama;
mod server;
mod session;
mod ui;
mod v2;
mod whose;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};

pub use activity::{Activity, Busy};
pub use app::cache::fsck::told as checkup;
pub use server::{Server, Token};

/// The longest request body. Pictures come inside of it, as text.
const MAX_BODY_BYTES: usize = 256 << 20;

/// Paths that answer HEAD; elsewhere it is a wrong method, as in Ollama.
const HEAD_PATHS: [&str; 3] = ["/", "/api/version", "/api/tags"];
/// Every path that begins so does too.
const HEAD_FOLDERS: [&str; 3] = ["/api/blobs/", ui::PATH, "/v2"];

/// All routes over a server's state.
pub fn router(server: Server) -> Router {
    Router::new()
        .merge(ollama::routes())
        .merge(app::routes())
        .merge(metrics::routes())
        .merge(session::routes())
        .merge(ui::routes())
        .merge(v2::routes())
        .fallback(async || (StatusCode::NOT_FOUND, "404 page not found"))
        .method_not_allowed_fallback(async || wrong_method())
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn_with_state(server.clone(), access::check))
        .layer(from_fn_with_state(server.clone(), count))
        .with_state(server)
}

fn wrong_method() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed").into_response()
}

/// Counts the request for as long as it is worked on, and turns HEAD away where there is none.
async fn count(State(server): State<Server>, request: Request, next: Next) -> Response {
    let _busy = server.activity().begin();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let has_head = HEAD_PATHS.contains(&&*path) || HEAD_FOLDERS.iter().any(|folder| path.starts_with(folder));
    let response = match response.status().is_success() && method == Method::HEAD && !has_head {
        true => wrong_method(),
        false => response,
    };
    tracing::debug!(%method, path, status = response.status().as_u16(), "answered");
    response
}

#[cfg(test)]
mod tests;
