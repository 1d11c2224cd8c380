//! Streamed responses: the events of an answer or of other work, each sent as soon as it is ready.
//!
//! A task reads the events. It ends when the client disconnects, even while it waits for an event. Dropping the events
//! cancels their work. An [`Encoder`] writes them in the format of the client's API.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use cairn_app::inference::{Answer, Event};
use cairn_app::panics::catch;
use cairn_wire::ErrorBody;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::ActivityGuard;
use crate::error::{ApiError, last_line};

/// Capacity of the channel to the client in events. A full channel blocks the producer.
const QUEUED_EVENTS: usize = 16;

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

/// Writes events in the format of an API.
pub(crate) trait Encoder<E>: Send + 'static {
    const CONTENT_TYPE: &'static str;

    /// Returns the bytes of an event; empty if the client does not see it.
    ///
    /// # Errors
    /// If the event is the failure of the stream. It is the last event.
    fn encode(&mut self, event: E) -> Result<Vec<u8>, cairn_app::Error>;

    /// Returns the bytes that end a stream after [`Encoder::encode`] failed.
    fn fail(&mut self, error: &ErrorBody) -> Vec<u8> {
        Self::encode_error(error)
    }

    /// Returns the bytes that end a stream without its encoder.
    fn encode_error(error: &ErrorBody) -> Vec<u8>;
}

/// Streams events, after some bytes. An error becomes the end of the stream.
pub(crate) fn respond<E: Events, C: Encoder<E::Event>>(
    first: Vec<u8>,
    mut events: E,
    guard: ActivityGuard,
    mut encoder: C,
) -> Response {
    let (sender, receiver) = mpsc::channel::<Bytes>(QUEUED_EVENTS);
    tokio::spawn(async move {
        let _guard = guard;
        let last = sender.clone();
        let sending = async move {
            if !first.is_empty() && sender.send(first.into()).await.is_err() {
                return;
            }
            loop {
                let event = tokio::select! {
                    event = events.next() => event,
                    () = sender.closed() => return,
                };
                let Some(event) = event else { return };
                let bytes = match encoder.encode(event) {
                    Ok(bytes) if bytes.is_empty() => continue,
                    Ok(bytes) => bytes,
                    Err(error) => {
                        tracing::error!(%error, "cannot complete a streamed response");
                        encoder.fail(&last_line(&error))
                    }
                };
                if sender.send(bytes.into()).await.is_err() {
                    return;
                }
            }
        };
        if catch(sending).await.is_err() {
            // Without it the response would look complete. The client may have disconnected; that is not an error.
            let _ = last.send(C::encode_error(&ApiError::panicked().into_body()).into()).await;
        }
    });
    let chunks = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    ([(header::CONTENT_TYPE, C::CONTENT_TYPE)], Body::from_stream(chunks)).into_response()
}
