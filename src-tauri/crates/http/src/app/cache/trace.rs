//! `POST /app/cache/trace`: what is kept of a prompt, and why it is not more.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_app::inference::{Message, TracePrompt, Traced};
use cairn_wire::app::{CacheTrace, CacheTraceRequest, TierTokens};

use super::name;
use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/cache/trace", post(trace))
}

async fn trace(State(server): State<Server>, Body(asked): Body<CacheTraceRequest>) -> Result<Response, ApiError> {
    if asked.messages.is_empty() {
        return Err(ApiError::bad_request("there is no message to look for"));
    }
    let message = |message: cairn_wire::ollama::Message| Message {
        thinking: message.thinking,
        ..Message::new(message.role, message.content)
    };
    let messages = asked.messages.into_iter().map(message).collect();
    let traced = server
        .app()
        .inference()
        .trace(TracePrompt {
            model: asked.model,
            messages,
            raw: asked.raw,
            options: asked.options,
            ..TracePrompt::default()
        })
        .await?;
    Ok(json(StatusCode::OK, &told(traced)))
}

fn told(traced: Traced) -> CacheTrace {
    let tiers =
        traced.places.into_iter().map(|(place, tokens)| TierTokens { tier: name(place), tokens: tokens as u64 });
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
