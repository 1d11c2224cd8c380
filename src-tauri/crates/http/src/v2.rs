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
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cairn_app::transfers;
use serde::Serialize;

use crate::Server;
use crate::error::json;

/// Returns whether this registry serves the path.
pub(crate) fn has(path: &str) -> bool {
    path == "/v2" || path.starts_with("/v2/")
}

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

/// Error response in the format of the specification.
#[derive(Debug)]
pub(crate) struct RegistryError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl RegistryError {
    pub(crate) fn denied(message: &str) -> Self {
        Self { status: StatusCode::FORBIDDEN, code: "DENIED", message: message.to_owned() }
    }

    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }
}

impl From<transfers::Error> for RegistryError {
    fn from(error: transfers::Error) -> Self {
        let (status, code) = match error {
            transfers::Error::Name(_) => (StatusCode::BAD_REQUEST, "NAME_INVALID"),
            transfers::Error::Join(_) => (StatusCode::UNAUTHORIZED, "UNAUTHORIZED"),
            transfers::Error::Pull(_) => (StatusCode::BAD_GATEWAY, "UNAVAILABLE"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN"),
        };
        Self::new(status, code, error.to_string())
    }
}

impl IntoResponse for RegistryError {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Errors {
            errors: [ErrorEntry; 1],
        }
        #[derive(Serialize)]
        struct ErrorEntry {
            code: &'static str,
            message: String,
        }
        tracing::info!(status = self.status.as_u16(), error = self.message, "registry request rejected");
        let body = Errors { errors: [ErrorEntry { code: self.code, message: self.message }] };
        let mut response = json(self.status, &body);
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
