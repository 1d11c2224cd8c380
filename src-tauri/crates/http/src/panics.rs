//! Panics in the work of a request: the client gets an error, and its connection stays usable.
//!
//! Without this a panic would end the connection without a response. The panic hook of the daemon writes it to the log.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cairn_app::panics::{Panicked, catch};

use crate::error::ApiError;

/// Middleware that responds with an internal error if a handler panics.
pub(crate) async fn respond(request: Request, next: Next) -> Response {
    match catch(next.run(request)).await {
        Ok(response) => response,
        Err(Panicked) => ApiError::panicked().into_response(),
    }
}
