//! Passes the response of a remote on as the bytes that arrived, in the format of the client's API.

use std::marker::PhantomData;

use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use cairn_app::inference::{CallError, Endpoint, Error, Inference, Relay, RelayFrame};
use cairn_wire::ErrorBody;

use crate::error::ApiError;
use crate::request_log::LogHandle;
use crate::streaming::{Encoder, Events, respond};
use crate::{Server, ndjson, openai, sse};

/// A client's request that a remote may answer as it is.
pub(crate) struct RelayRequest<'a> {
    pub(crate) inference: &'a Inference,
    pub(crate) endpoint: Endpoint,
    pub(crate) model: &'a str,
    pub(crate) json: &'a [u8],
    pub(crate) is_streamed: bool,
    pub(crate) is_incognito: bool,
}

/// Answers a request if its model is at remotes that have the endpoint.
pub(crate) async fn relay(
    server: &Server,
    log: &LogHandle,
    request: RelayRequest<'_>,
) -> Result<Option<Response>, ApiError> {
    let RelayRequest { inference, endpoint, model, json, is_streamed, is_incognito } = request;
    let Some(mut relay) = inference.relay(endpoint, model, json, is_incognito).await? else {
        return Ok(None);
    };
    log.set_model(model);
    let (guard, log) = (server.activity().begin(), log.clone());
    match endpoint {
        Endpoint::OllamaChat | Endpoint::OllamaGenerate if is_streamed => {
            return Ok(Some(respond(Vec::new(), relay, guard, Frames::<Lines>::new(log))));
        }
        Endpoint::OpenAiChat | Endpoint::OpenAiCompletions if is_streamed => {
            return Ok(Some(respond(Vec::new(), relay, guard, Frames::<ServerSentEvents>::new(log))));
        }
        _ => {}
    }
    // A response that is not streamed is one frame with bytes, which may be large.
    let mut body = Bytes::new();
    while let Some(frame) = relay.next().await {
        let frame = frame?;
        record(&log, &frame);
        body = match (body.is_empty(), frame.bytes.is_empty()) {
            (true, _) => frame.bytes,
            (false, true) => body,
            (false, false) => [body, frame.bytes].concat().into(),
        };
    }
    drop(guard);
    if body.is_empty() {
        return Err(Error::from(CallError::Aborted).into());
    }
    let headers = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    Ok(Some((StatusCode::OK, headers, body).into_response()))
}

fn record(log: &LogHandle, frame: &RelayFrame) {
    if frame.has_delta {
        log.record_first_token();
    }
    if let Some(usage) = &frame.usage {
        log.set_usage(usage);
    }
}

impl Events for Relay {
    type Event = Result<RelayFrame, Error>;

    fn next(&mut self) -> impl Future<Output = Option<Self::Event>> + Send {
        Relay::next(self)
    }
}

/// The format of a stream's last part if the remote fails.
trait Format: Send + 'static {
    const CONTENT_TYPE: &'static str;
    fn encode_error(error: &ErrorBody) -> Vec<u8>;
}

struct Lines;

impl Format for Lines {
    const CONTENT_TYPE: &'static str = "application/x-ndjson";

    fn encode_error(error: &ErrorBody) -> Vec<u8> {
        ndjson::bytes(error)
    }
}

struct ServerSentEvents;

impl Format for ServerSentEvents {
    const CONTENT_TYPE: &'static str = sse::CONTENT_TYPE;

    fn encode_error(error: &ErrorBody) -> Vec<u8> {
        openai::encode_error(error)
    }
}

struct Frames<F> {
    log: LogHandle,
    format: PhantomData<F>,
}

impl<F> Frames<F> {
    fn new(log: LogHandle) -> Self {
        Self { log, format: PhantomData }
    }
}

impl<F: Format> Encoder<Result<RelayFrame, Error>> for Frames<F> {
    const CONTENT_TYPE: &'static str = F::CONTENT_TYPE;

    fn encode(&mut self, frame: Result<RelayFrame, Error>) -> Result<Vec<u8>, cairn_app::Error> {
        let frame = frame?;
        record(&self.log, &frame);
        Ok(frame.bytes.to_vec())
    }

    fn encode_error(error: &ErrorBody) -> Vec<u8> {
        F::encode_error(error)
    }
}
