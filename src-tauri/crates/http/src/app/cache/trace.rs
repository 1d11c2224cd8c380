//! `POST /app/cache/trace`: reports the cached prefix of a prompt and the reason of the first miss.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{Message, TracePrompt, Traced};
use cairn_wire::app::{CacheTrace, CacheTraceRequest, TierTokens};

use super::tier_name;
use crate::Server;
use crate::body::{Body, BodyLimit};
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/cache/trace", post(trace).layer(BodyLimit::PROMPT.layer()))
}

async fn trace(State(server): State<Server>, Body(request): Body<CacheTraceRequest>) -> Result<Response, ApiError> {
    if request.messages.is_empty() {
        return Err(ApiError::bad_request("messages must not be empty"));
    }
    let message = |message: cairn_wire::ollama::Message| Message {
        thinking: message.thinking,
        ..Message::new(message.role, message.content)
    };
    let messages = request.messages.into_iter().map(message).collect();
    let traced = server
        .app()
        .inference()
        .trace(TracePrompt {
            model: request.model,
            messages,
            raw: request.raw,
            options: request.options,
            ..TracePrompt::default()
        })
        .await?;
    Ok(json(StatusCode::OK, &response(traced)))
}

fn response(traced: Traced) -> CacheTrace {
    let tiers =
        traced.places.into_iter().map(|(tier, tokens)| TierTokens { tier: tier_name(tier), tokens: tokens as u64 });
    CacheTrace {
        tokens: traced.tokens as u64,
        memory_tokens: traced.memory_tokens as u64,
        kept_tokens: traced.kept_tokens as u64,
        tiers: tiers.collect(),
        reason: traced.reason.to_owned(),
        changed_at: traced.changed_at.map(|at| at as u64),
        kept_text: traced.kept_text,
        asked_text: traced.asked_text,
    }
}
