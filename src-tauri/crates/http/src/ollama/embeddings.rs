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
use crate::relay::{RelayRequest, relay};
use crate::request_log::LogHandle;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/embeddings", post(embeddings).layer(BodyLimit::PROMPT.layer()))
}

async fn embeddings(
    State(server): State<Server>,
    ClientInference { inference, scope }: ClientInference,
    log: LogHandle,
    body: JsonBytes,
) -> Result<Response, ApiError> {
    let request: EmbeddingsRequest = body.parse()?;
    let relayed = RelayRequest {
        inference: &inference,
        endpoint: Endpoint::OllamaEmbeddings,
        model: &request.model,
        json: &body.json,
        is_streamed: false,
        is_incognito: scope.incognito,
    };
    if let Some(response) = relay(&server, &log, relayed).await? {
        return Ok(response);
    }
    drop(body);
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
    let mut embedded = inference.embed(embed).await?;
    log.set_usage(&Usage { prompt_tokens: embedded.tokens, total: embedded.total, ..Usage::default() });
    let embedding = embedded.vectors.pop().unwrap_or_default();
    Ok(json(StatusCode::OK, &EmbeddingsResponse { embedding }))
}
