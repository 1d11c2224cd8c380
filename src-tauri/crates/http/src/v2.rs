//! `/v2`: this machine's models, as a registry gives them out, to be pulled by Cairn and by Ollama's own client.
//!
//! It follows the OCI distribution specification 1.1 for pulling, with one thing beside it: Ollama's client takes an
//! answer of 200 for a blob only with a `Location`, from which it then asks for the parts, so a blob's answer names its
//! own address there. Nothing can be written.

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

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/v2/", get(root))
        .route("/v2", get(root))
        .merge(blob::routes())
        .merge(manifest::routes())
        .merge(sign_in::routes())
        .layer(from_fn(name_version))
}

/// Clients ask this first, to see whether it is a registry and whether they must sign in.
async fn root(State(_): State<Server>) -> Response {
    json(StatusCode::OK, &serde_json::Map::new())
}

async fn name_version(request: axum::extract::Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let version = HeaderValue::from_static("registry/2.0");
    response.headers_mut().insert("Docker-Distribution-API-Version", version);
    response
}

/// A refusal, in the words of the specification.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    pub(crate) fn denied(message: &str) -> Self {
        Self { status: StatusCode::FORBIDDEN, code: "DENIED", message: message.to_owned() }
    }

    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }
}

impl From<transfers::Error> for Refusal {
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

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Errors {
            errors: [One; 1],
        }
        #[derive(Serialize)]
        struct One {
            code: &'static str,
            message: String,
        }
        tracing::info!(status = self.status.as_u16(), error = self.message, "refused to a client of the registry");
        let mut response = json(self.status, &Errors { errors: [One { code: self.code, message: self.message }] });
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
