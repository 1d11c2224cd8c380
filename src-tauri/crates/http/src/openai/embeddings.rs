//! `POST /v1/embeddings`: the vectors of texts.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cairn_app::inference::{Embed, EmbedInput, Endpoint};
use cairn_wire::openai::{Embedding, EmbeddingList, EmbeddingRequest, EmbeddingVector, InputUsage};
use cairn_wire::{Usage, excerpt};
use serde_json::Value;

use crate::Server;
use crate::body::{BodyLimit, JsonBytes};
use crate::client_inference::ClientInference;
use crate::error::{ApiError, json};
use crate::relay::{RelayOutcome, RelayRequest, relay};
use crate::request_log::LogHandle;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/v1/embeddings", post(embeddings).layer(BodyLimit::PROMPT.layer()))
}

impl RelayRequest for EmbeddingRequest {
    const ENDPOINT: Endpoint = Endpoint::OpenAiEmbeddings;

    fn model(&self) -> &str {
        &self.model
    }
}

async fn embeddings(
    State(server): State<Server>,
    client: ClientInference,
    log: LogHandle,
    body: JsonBytes,
) -> Result<Response, ApiError> {
    let request: EmbeddingRequest = match relay(&server, &client, &log, body).await? {
        RelayOutcome::Local(request) => request,
        RelayOutcome::Response(response) => return Ok(response),
    };
    log.set_model(&request.model);
    let is_base64 = match request.encoding_format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            let text = format!("invalid encoding_format: {:?}; it must be \"float\" or \"base64\"", excerpt(other));
            return Err(ApiError::bad_request(text));
        }
    };
    let dimensions = match request.dimensions {
        Some(dimensions) if dimensions < 1 => {
            return Err(ApiError::bad_request(format!("dimensions cannot be {dimensions}; it must be 1 or more")));
        }
        dimensions => dimensions.and_then(|dimensions| usize::try_from(dimensions).ok()),
    };
    let _guard = server.activity().begin();
    let embed = Embed { model: request.model.clone(), input: input(request.input)?, dimensions, ..Embed::default() };
    let embedded = client.inference.embed(embed).await?;
    log.set_usage(&Usage { prompt_tokens: embedded.tokens, total: embedded.total, ..Usage::default() });
    let vector = |vector: Vec<f32>| match is_base64 {
        true => {
            let bytes: Vec<u8> = vector.into_iter().flat_map(f32::to_le_bytes).collect();
            EmbeddingVector::Base64(BASE64_STANDARD.encode(bytes))
        }
        false => EmbeddingVector::Float(vector),
    };
    let data = embedded.vectors.into_iter().enumerate();
    let data = data
        .map(|(index, values)| Embedding { object: "embedding".to_owned(), embedding: vector(values), index })
        .collect();
    let usage = usage(embedded.tokens);
    Ok(json(StatusCode::OK, &EmbeddingList { object: "list".to_owned(), data, model: request.model, usage }))
}

/// Returns the token counts of a request without an answer.
pub(super) fn usage(tokens: u64) -> InputUsage {
    InputUsage { prompt_tokens: tokens, total_tokens: tokens }
}

/// Returns the texts of a request: a text, a list of texts, the token ids of a text, or a list of those.
fn input(input: Value) -> Result<EmbedInput, ApiError> {
    let invalid = || ApiError::bad_request("invalid input");
    let tokens = |value: Value| serde_json::from_value::<Vec<u32>>(value).map_err(|_| invalid());
    match input {
        Value::String(text) => Ok(EmbedInput::Texts(vec![text])),
        Value::Array(items) => match items.first() {
            Some(Value::String(_)) => {
                let texts = serde_json::from_value(Value::Array(items)).map_err(|_| invalid())?;
                Ok(EmbedInput::Texts(texts))
            }
            Some(Value::Number(_)) => Ok(EmbedInput::Tokens(vec![tokens(Value::Array(items))?])),
            Some(Value::Array(_)) => items.into_iter().map(tokens).collect::<Result<_, _>>().map(EmbedInput::Tokens),
            _ => Err(invalid()),
        },
        _ => Err(invalid()),
    }
}
