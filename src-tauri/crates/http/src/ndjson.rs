//! Streams of Ollama's API: one JSON object per line.

use axum::response::Response;
use cairn_wire::ErrorBody;
use serde::Serialize;

use crate::ActivityGuard;
use crate::error::ApiError;
use crate::streaming::{Encoder, Events, respond};

/// Streams events, each as the line that `line` makes of it. If the first event is an error, the response has the
/// error's status instead.
pub(crate) async fn stream_or_error<E: Events, T: Serialize + 'static>(
    mut events: E,
    guard: ActivityGuard,
    line: impl Fn(E::Event) -> Result<T, cairn_app::Error> + Send + 'static,
) -> Result<Response, ApiError> {
    let mut lines = Lines(line);
    let first = match events.next().await {
        Some(event) => lines.encode(event)?,
        None => Vec::new(),
    };
    Ok(respond(first, events, guard, lines))
}

/// Streams events, each as the line that `line` makes of it. An error becomes the last line.
pub(crate) fn stream<E: Events, T: Serialize + 'static>(
    events: E,
    guard: ActivityGuard,
    line: impl Fn(E::Event) -> Result<T, cairn_app::Error> + Send + 'static,
) -> Response {
    respond(Vec::new(), events, guard, Lines(line))
}

/// An encoder that makes a line of each event.
struct Lines<F>(F);

impl<E, T: Serialize, F: Fn(E) -> Result<T, cairn_app::Error> + Send + 'static> Encoder<E> for Lines<F> {
    const CONTENT_TYPE: &'static str = "application/x-ndjson";

    fn encode(&mut self, event: E) -> Result<Vec<u8>, cairn_app::Error> {
        Ok(bytes(&self.0(event)?))
    }

    fn encode_error(error: &ErrorBody) -> Vec<u8> {
        bytes(error)
    }
}

pub(crate) fn bytes<T: Serialize>(chunk: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(chunk).expect("wire types have string keys and finite numbers");
    line.push(b'\n');
    line
}
