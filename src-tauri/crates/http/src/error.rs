//! Errors as clients see them: a status and `{"error": "..."}`.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use cairn_app::Error;
use cairn_wire::ollama::ErrorBody;
use serde::Serialize;

/// A refusal.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    text: String,
    /// The text repeats what the client sent, which may be a prompt: it goes back to the client and into no log.
    quotes_request: bool,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), quotes_request: false }
    }

    /// A body that is no request, with the decoder's words for it.
    pub(crate) fn malformed(error: &serde_json::Error) -> Self {
        Self { quotes_request: true, ..Self::bad_request(error.to_string()) }
    }

    pub(crate) fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = StatusCode::from_u16(error.kind().row().http_status);
        Self::new(status.expect("the table has HTTP statuses only"), error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status.as_u16();
        let error = if self.quotes_request { "the body cannot be read" } else { &self.text };
        if self.status.is_server_error() {
            tracing::error!(status, error, "refused");
        } else {
            tracing::info!(status, error, "refused");
        }
        json(self.status, &ErrorBody { error: self.text })
    }
}

/// A JSON answer, with the content type that Ollama's clients know.
pub(crate) fn json<T: Serialize>(status: StatusCode, body: &T) -> Response {
    let bytes = serde_json::to_vec(body).expect("our own types have string keys and finite numbers");
    (status, [(header::CONTENT_TYPE, "application/json; charset=utf-8")], bytes).into_response()
}

/// Does what waits for disks, away from the threads that serve clients.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "it ended half-way"))
}
