//! `/v2`: read-only registry of this machine's models, for pulls by Cairn and by Ollama's client.
//!
//! It follows the OCI distribution specification 1.1 for pulling, with one addition for Ollama's client. That client
//! accepts status 200 for a blob only with a `Location` header, from which it then requests ranges. So the response to
//! a whole blob has its own URL in `Location`.

mod blob;
mod manifest;
mod range;
mod sign_in;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;

use crate::Server;
use crate::error::json;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/v2/", get(root))
        .route("/v2", get(root))
        .merge(blob::routes())
        .merge(manifest::routes())
        .merge(sign_in::routes())
        .layer(from_fn(add_version))
}

/// Version check of the specification: clients use it to detect a registry and whether it requires a sign-in.
async fn root(State(_): State<Server>) -> Response {
    json(StatusCode::OK, &serde_json::Map::new())
}

async fn add_version(request: axum::extract::Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let version = HeaderValue::from_static("registry/2.0");
    response.headers_mut().insert("Docker-Distribution-API-Version", version);
    response
}
