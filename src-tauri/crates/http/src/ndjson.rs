//! Streamed responses: one JSON object per line, each sent as soon as it is ready.
//!
//! A task reads the events. It ends when the client disconnects, even while it waits for an event. Dropping the events
//! cancels their work.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use cairn_app::inference::{Answer, Event};
use cairn_app::panics::catch;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::ActivityGuard;
use crate::error::{ApiError, last_line};

/// Capacity of the channel to the client in lines. A full channel blocks the producer.
const QUEUED_LINES: usize = 16;

/// Asynchronous source of events.
pub(crate) trait Events: Send + 'static {
    type Event: Send + 'static;

    /// Waits for the next event. Returns `None` after the last.
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

/// Streams events, each as the line that `line` makes of it. If the first event is an error, the response has the
/// error's status instead.
pub(crate) async fn stream_or_error<E: Events, T: Serialize>(
    mut events: E,
    guard: ActivityGuard,
    line: impl Fn(E::Event) -> Result<T, cairn_app::Error> + Send + 'static,
) -> Result<Response, ApiError> {
    let first = match events.next().await {
        Some(event) => Some(bytes(&line(event)?)),
        None => None,
    };
    Ok(respond(first, events, guard, line))
}

/// Streams events, each as the line that `line` makes of it. An error becomes the last line.
pub(crate) fn stream<E: Events, T: Serialize>(
    events: E,
    guard: ActivityGuard,
    line: impl Fn(E::Event) -> Result<T, cairn_app::Error> + Send + 'static,
) -> Response {
    respond(None, events, guard, line)
}

fn respond<E: Events, T: Serialize>(
    first: Option<Bytes>,
    mut events: E,
    guard: ActivityGuard,
    line: impl Fn(E::Event) -> Result<T, cairn_app::Error> + Send + 'static,
) -> Response {
    let (sender, receiver) = mpsc::channel(QUEUED_LINES);
    tokio::spawn(async move {
        let _guard = guard;
        let last = sender.clone();
        let sending = async move {
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
                        tracing::error!(%error, "cannot complete a streamed response");
                        bytes(&last_line(&error))
                    }
                };
                if sender.send(bytes).await.is_err() {
                    return;
                }
            }
        };
        if catch(sending).await.is_err() {
            // Without this line the response would look complete. The client may have disconnected; that is not an error.
            let _ = last.send(bytes(&ApiError::panicked().into_body())).await;
        }
    });
    let lines = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}

fn bytes<T: Serialize>(chunk: &T) -> Bytes {
    let mut line = serde_json::to_vec(chunk).expect("wire types have string keys and finite numbers");
    line.push(b'\n');
    line.into()
}
