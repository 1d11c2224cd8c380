//! `POST /api/embeddings`: the vector of one text, for clients that do not use `/api/embed` yet.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{Embed, EmbedInput, Endpoint};
use cairn_wire::Usage;
use cairn_wire::ollama::{EmbeddingsRequest, EmbeddingsResponse};

use crate::Server;
use crate::body::{BodyLimit, JsonBytes};
use crate::client_inference::ClientInference;
use crate::error::{ApiError, json};
use crate::relay::{RelayOutcome, RelayRequest, relay};
use crate::request_log::LogHandle;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/embeddings", post(embeddings).layer(BodyLimit::PROMPT.layer()))
}

impl RelayRequest for EmbeddingsRequest {
    const ENDPOINT: Endpoint = Endpoint::OllamaEmbeddings;

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
    let request: EmbeddingsRequest = match relay(&server, &client, &log, body).await? {
        RelayOutcome::Local(request) => request,
        RelayOutcome::Response(response) => return Ok(response),
    };
    log.set_model(&request.model);
    let _guard = server.activity().begin();
    let texts = Some(request.prompt).filter(|text| !text.is_empty()).into_iter().collect();
    let embed = Embed {
        model: request.model,
        input: EmbedInput::Texts(texts),
        options: request.options,
        keep_alive: request.keep_alive,
        ..Embed::default()
    };
    let mut embedded = client.inference.embed(embed).await?;
    log.set_usage(&Usage { prompt_tokens: embedded.tokens, total: embedded.total, ..Usage::default() });
    let embedding = embedded.vectors.pop().unwrap_or_default();
    Ok(json(StatusCode::OK, &EmbeddingsResponse { embedding }))
}
