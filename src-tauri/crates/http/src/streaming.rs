//! Streamed responses: the events of an answer or of other work, each sent as soon as it is ready.
//!
//! A task reads the events. It ends when the client disconnects, even while it waits for an event. Dropping the events
//! cancels their work. An [`Encoder`] writes them in the format of the client's API.
//!
//! The chunks that a slow client has not read are limited in number and in bytes. At a limit the task takes no more events,
//! so that their producer pauses.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use cairn_app::inference::{Answer, Event};
use cairn_app::panics::catch;
use cairn_app::{ByteReceiver, byte_channel};
use cairn_wire::ErrorBody;
use tokio::sync::mpsc;
use tokio_stream::Stream;

use crate::ActivityGuard;
use crate::error::{ApiError, last_line};

/// Capacity of the channel to the client in chunks.
const QUEUED_CHUNKS: usize = 16;
/// Capacity of the channel to the client in bytes. A larger chunk is the only one in the channel.
const QUEUED_BYTES: u32 = 256 << 10;

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
    let (sender, receiver) = byte_channel(QUEUED_CHUNKS, QUEUED_BYTES);
    tokio::spawn(async move {
        let _guard = guard;
        let last = sender.clone();
        let sending = async move {
            if !first.is_empty() && !sender.send(Bytes::from(first)).await {
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
                if !sender.send(Bytes::from(bytes)).await {
                    return;
                }
            }
        };
        if catch(sending).await.is_err() {
            // Without it the response would look complete. The client may have disconnected; that is not an error.
            last.send(Bytes::from(C::encode_error(&ApiError::panicked().into_body()))).await;
        }
    });
    ([(header::CONTENT_TYPE, C::CONTENT_TYPE)], Body::from_stream(Chunks(receiver))).into_response()
}

/// The chunks of a response body.
struct Chunks(ByteReceiver<Bytes>);

impl Stream for Chunks {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use super::*;
    use crate::Activity;

    /// A source of equal events, which counts those that were taken.
    struct Source {
        bytes: usize,
        left: usize,
        taken: Arc<AtomicUsize>,
    }

    impl Events for Source {
        type Event = Vec<u8>;

        fn next(&mut self) -> impl Future<Output = Option<Vec<u8>>> + Send {
            let event = self.left.checked_sub(1).map(|left| {
                self.left = left;
                self.taken.fetch_add(1, Ordering::Relaxed);
                vec![b'x'; self.bytes]
            });
            std::future::ready(event)
        }
    }

    struct Raw;

    impl Encoder<Vec<u8>> for Raw {
        const CONTENT_TYPE: &'static str = "text/plain";

        fn encode(&mut self, event: Vec<u8>) -> Result<Vec<u8>, cairn_app::Error> {
            Ok(event)
        }

        fn encode_error(_: &ErrorBody) -> Vec<u8> {
            Vec::new()
        }
    }

    #[tokio::test]
    async fn events_of_a_client_that_does_not_read_are_limited_in_number_and_bytes() {
        let check = async |bytes: usize, queued: usize| {
            let taken = Arc::new(AtomicUsize::new(0));
            let source = Source { bytes, left: 40, taken: Arc::clone(&taken) };
            let response = respond(Vec::new(), source, Activity::new(Instant::now()).begin(), Raw);
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            // One more event waits for room.
            assert_eq!(taken.load(Ordering::Relaxed), queued + 1, "events of {bytes} bytes");
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("the stream does not fail");
            assert_eq!(body.len(), 40 * bytes, "all events of {bytes} bytes arrive");
        };
        check(100, QUEUED_CHUNKS).await;
        check(QUEUED_BYTES as usize / 4, 4).await;
        check(QUEUED_BYTES as usize, 1).await;
        check(3 * QUEUED_BYTES as usize, 1).await;
    }
}
