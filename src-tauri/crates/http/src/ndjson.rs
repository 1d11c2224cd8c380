//! Answers that stream: one JSON object per line, sent as soon as it is there.
//!
//! The answer is read by a task that ends when the client goes away, even while no line is ready: dropping the answer is
//! what stops the work for it.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use cairn_app::inference::{Answer, Event};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::Busy;
use crate::error::{ApiError, last_line};

/// Lines that may wait for a slow client before the computation waits too.
const WAITING_LINES: usize = 16;

/// Something whose outcome comes in pieces.
pub(crate) trait Events: Send + 'static {
    type Event: Send + 'static;

    /// The next piece; `None` after the last one.
    fn next(&mut self) -> impl Future<Output = Option<Self::Event>> + Send;
}

impl Events for Answer {
    type Event = Event;

    fn next(&mut self) -> impl Future<Output = Option<Event>> + Send {
        Answer::next(self)
    }
}

impl<T: Send + 'static> Events for mpsc::Receiver<T> {
    type Event = T;

    fn next(&mut self) -> impl Future<Output = Option<T>> + Send {
        self.recv()
    }
}

/// Streams events, each as the line that `line` makes of it; one that failed before its first line is refused with a
/// status that says so.
pub(crate) async fn stream_or_refuse<E: Events, T: Serialize>(
    mut events: E,
    busy: Busy,
    line: impl Fn(E::Event) -> Result<T, cairn_app::Error> + Send + 'static,
) -> Result<Response, ApiError> {
    let first = match events.next().await {
        Some(event) => Some(bytes(&line(event)?)),
        None => None,
    };
    Ok(respond(first, events, busy, line))
}

/// Streams events, each as the line that `line` makes of it.
pub(crate) fn stream<E: Events, T: Serialize>(
    events: E,
    busy: Busy,
    line: impl Fn(E::Event) -> Result<T, cairn_app::Error> + Send + 'static,
) -> Response {
    respond(None, events, busy, line)
}

fn respond<E: Events, T: Serialize>(
    first: Option<Bytes>,
    mut events: E,
    busy: Busy,
    line: impl Fn(E::Event) -> Result<T, cairn_app::Error> + Send + 'static,
) -> Response {
    let (sender, receiver) = mpsc::channel(WAITING_LINES);
    tokio::spawn(async move {
        let _busy = busy;
        if let Some(first) = first
            && sender.send(first).await.is_err()
        {
            return;
        }
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = sender.closed() => return,
            };
            let Some(event) = event else { return };
            let bytes = match line(event) {
                Ok(chunk) => bytes(&chunk),
                Err(error) => {
                    tracing::error!(%error, "the stream failed");
                    bytes(&last_line(&error))
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
