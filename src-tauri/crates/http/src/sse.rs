//! Server-sent events, the streams of the OpenAI and Anthropic APIs.
//!
//! Source: <https://html.spec.whatwg.org/multipage/server-sent-events.html>. JSON has no line breaks, so that each event
//! has one `data` line.

use serde::Serialize;

/// Content type of a stream of events.
pub(crate) const CONTENT_TYPE: &str = "text/event-stream";
/// The last event of a stream of the OpenAI API.
pub(crate) const DONE: &[u8] = b"data: [DONE]\n\n";

/// Appends an event without a name.
pub(crate) fn push_data<T: Serialize>(stream: &mut Vec<u8>, data: &T) {
    stream.extend_from_slice(b"data: ");
    serde_json::to_writer(&mut *stream, data).expect("wire types have string keys and finite numbers");
    stream.extend_from_slice(b"\n\n");
}

/// Appends an event with a name.
pub(crate) fn push_event<T: Serialize>(stream: &mut Vec<u8>, name: &str, data: &T) {
    stream.extend_from_slice(format!("event: {name}\n").as_bytes());
    push_data(stream, data);
}
