//! `POST /api/embeddings`: the vector of one text, for clients that do not use `/api/embed` yet.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{Embed, EmbedInput};
use cairn_wire::Usage;
use cairn_wire::ollama::{EmbeddingsRequest, EmbeddingsResponse};

use crate::Server;
use crate::body::{Body, BodyLimit};
use crate::error::{ApiError, json};
use crate::request_log::LogHandle;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/embeddings", post(embeddings).layer(BodyLimit::PROMPT.layer()))
}

async fn embeddings(
    State(server): State<Server>,
    log: LogHandle,
    Body(request): Body<EmbeddingsRequest>,
) -> Result<Response, ApiError> {
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
    let mut embedded = server.app().inference().embed(embed).await?;
    log.set_usage(&Usage { prompt_tokens: embedded.tokens, total: embedded.total, ..Usage::default() });
    let embedding = embedded.vectors.pop().unwrap_or_default();
    Ok(json(StatusCode::OK, &EmbeddingsResponse { embedding }))
}
