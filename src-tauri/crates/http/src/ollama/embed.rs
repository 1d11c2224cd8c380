//! `POST /api/embed`: the vectors of texts.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{Embed, EmbedInput, Endpoint};
use cairn_wire::Usage;
use cairn_wire::ollama::{EmbedRequest, EmbedResponse};
use serde_json::Value;

use crate::Server;
use crate::body::{BodyLimit, JsonBytes};
use crate::client_inference::ClientInference;
use crate::error::{ApiError, json};
use crate::relay::{RelayOutcome, RelayRequest, relay};
use crate::request_log::LogHandle;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/embed", post(embed).layer(BodyLimit::PROMPT.layer()))
}

impl RelayRequest for EmbedRequest {
    const ENDPOINT: Endpoint = Endpoint::OllamaEmbed;

    fn model(&self) -> &str {
        &self.model
    }
}

async fn embed(
    State(server): State<Server>,
    client: ClientInference,
    log: LogHandle,
    body: JsonBytes,
) -> Result<Response, ApiError> {
    let request: EmbedRequest = match relay(&server, &client, &log, body).await? {
        RelayOutcome::Local(request) => request,
        RelayOutcome::Response(response) => return Ok(response),
    };
    log.set_model(&request.model);
    let _guard = server.activity().begin();
    let embed = Embed {
        model: request.model.clone(),
        input: EmbedInput::Texts(texts(request.input)?),
        whole: request.truncate == Some(false),
        dimensions: request.dimensions.and_then(|dimensions| usize::try_from(dimensions).ok()),
        options: request.options,
        keep_alive: request.keep_alive,
    };
    let embedded = client.inference.embed(embed).await?;
    let usage = Usage {
        prompt_tokens: embedded.tokens,
        load: embedded.load,
        prompt: embedded.total.saturating_sub(embedded.load),
        total: embedded.total,
        ..Usage::default()
    };
    log.set_usage(&usage);
    let metrics = super::metrics(&usage);
    let response = EmbedResponse {
        model: request.model,
        embeddings: embedded.vectors,
        total_duration: metrics.total_duration,
        load_duration: metrics.load_duration,
        prompt_eval_count: usage.prompt_tokens,
    };
    Ok(json(StatusCode::OK, &response))
}

/// Returns the texts of a request. An empty text alone loads the model, as in Ollama.
fn texts(input: Value) -> Result<Vec<String>, ApiError> {
    let text = |value: Value| match value {
        Value::String(text) => Ok(text),
        _ => Err(ApiError::bad_request("invalid input type")),
    };
    match input {
        Value::Null => Ok(Vec::new()),
        Value::String(text) if text.is_empty() => Ok(Vec::new()),
        Value::Array(texts) => texts.into_iter().map(text).collect(),
        other => text(other).map(|text| vec![text]),
    }
}
