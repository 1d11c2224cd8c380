//! Answers that stream: one JSON object per line, sent as soon as it is there.
//!
//! The answer is read by a task that ends when the client goes away, even while no line is ready: dropping the answer is
//! what stops its computation.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use cairn_app::{Answer, Event};
use cairn_wire::ollama::ErrorBody;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::Busy;

/// Lines that may wait for a slow client before the computation waits too.
const WAITING_LINES: usize = 16;

/// Streams an answer's events, each as the line that `line` makes of it.
pub(crate) fn stream<T: Serialize>(
    mut answer: Answer,
    busy: Busy,
    line: impl Fn(Event) -> Result<T, cairn_app::Error> + Send + 'static,
) -> Response {
    let (sender, receiver) = mpsc::channel(WAITING_LINES);
    tokio::spawn(async move {
        let _busy = busy;
        loop {
            let event = tokio::select! {
                event = answer.next() => event,
                () = sender.closed() => return,
            };
            let Some(event) = event else { return };
            let bytes = match line(event) {
                Ok(chunk) => bytes(&chunk),
                Err(error) => {
                    tracing::error!(%error, "an answer ended half-way");
                    bytes(&ErrorBody { error: error.to_string() })
                }
            };
            if sender.send(bytes).await.is_err() {
                return;
            }
        }
    });
    let lines = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}

fn bytes<T: Serialize>(chunk: &T) -> Bytes {
    let mut line = serde_json::to_vec(chunk).expect("our own types have string keys and finite numbers");
    line.push(b'\n');
    line.into()
}
