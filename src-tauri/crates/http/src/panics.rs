//! Panics in the work of a request: the client gets an error, and its connection stays usable.
//!
//! Without this a panic would end the connection without a response. The panic hook of the daemon writes it to the log.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::error::ApiError;

/// A panic in the work of a request.
#[derive(Debug)]
pub(crate) struct Panicked;

/// Middleware that responds with an internal error if a handler panics.
pub(crate) async fn respond(request: Request, next: Next) -> Response {
    match catch(next.run(request)).await {
        Ok(response) => response,
        Err(Panicked) => ApiError::panicked().into_response(),
    }
}

/// Runs work until it completes or panics. The work is dropped after a panic, so its state is not used again.
pub(crate) async fn catch<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut work = pin!(work);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(_) => Poll::Ready(Err(Panicked)),
    })
    .await
}
