//! Passes the response of a remote on as the bytes that arrived, in the format of the client's API.

use std::marker::PhantomData;

use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use cairn_app::inference::{CallError, Endpoint, Error, Relay, RelayFrame};
use cairn_wire::ErrorBody;
use serde::de::DeserializeOwned;

use crate::body::JsonBytes;
use crate::client_inference::ClientInference;
use crate::error::ApiError;
use crate::request_log::LogHandle;
use crate::streaming::{Encoder, Events, respond};
use crate::{ActivityGuard, Server, ndjson, openai, sse};

/// A request that a remote may answer as it is.
pub(crate) trait RelayRequest: DeserializeOwned {
    const ENDPOINT: Endpoint;

    fn model(&self) -> &str;

    /// Whether the client requests a stream. Embeddings and scores have none.
    fn is_streamed(&self) -> bool {
        false
    }
}

/// Result of offering a request to the remotes.
pub(crate) enum RelayOutcome<T> {
    /// No remote has the model and the endpoint: this daemon answers the request.
    Local(T),
    /// The response of a remote.
    Response(Response),
}

/// Parses a request, and answers it if its model is at remotes that have the endpoint. Afterwards its bytes are freed.
pub(crate) async fn relay<T: RelayRequest>(
    server: &Server,
    client: &ClientInference,
    log: &LogHandle,
    body: JsonBytes,
) -> Result<RelayOutcome<T>, ApiError> {
    let request: T = body.parse()?;
    let relay = client.inference.relay(T::ENDPOINT, request.model(), &body.json, client.scope.incognito).await?;
    let Some(relay) = relay else { return Ok(RelayOutcome::Local(request)) };
    log.set_model(request.model());
    let (guard, log) = (server.activity().begin(), log.clone());
    let response = match T::ENDPOINT {
        Endpoint::OllamaChat | Endpoint::OllamaGenerate if request.is_streamed() => {
            respond(Vec::new(), relay, guard, Frames::<Lines>::new(log))
        }
        Endpoint::OpenAiChat | Endpoint::OpenAiCompletions if request.is_streamed() => {
            respond(Vec::new(), relay, guard, Frames::<ServerSentEvents>::new(log))
        }
        _ => whole(relay, guard, &log).await?,
    };
    Ok(RelayOutcome::Response(response))
}

/// Collects a response that is not streamed.
async fn whole(mut relay: Relay, _guard: ActivityGuard, log: &LogHandle) -> Result<Response, ApiError> {
    // A response that is not streamed is one frame with bytes, which may be large.
    let mut body = Bytes::new();
    while let Some(frame) = relay.next().await {
        let frame = frame?;
        record(log, &frame);
        body = match (body.is_empty(), frame.bytes.is_empty()) {
            (true, _) => frame.bytes,
            (false, true) => body,
            (false, false) => [body, frame.bytes].concat().into(),
        };
    }
    if body.is_empty() {
        return Err(Error::from(CallError::Aborted).into());
    }
    let headers = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    Ok((StatusCode::OK, headers, body).into_response())
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
