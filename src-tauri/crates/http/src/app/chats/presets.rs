//! `/app/presets`: named settings for new chats.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_wire::app::chats::{Preset, PresetsResponse};

use super::run_blocking;
use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/presets", get(list)).route("/app/presets/{name}", get(preset).put(put).delete(delete))
}

async fn list(State(server): State<Server>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let presets = run_blocking(move || app.chats().presets()).await?;
    Ok(json(StatusCode::OK, &PresetsResponse { presets }))
}

async fn preset(State(server): State<Server>, Path(name): Path<String>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    Ok(json(StatusCode::OK, &run_blocking(move || app.chats().preset(&name)).await?))
}

async fn put(
    State(server): State<Server>,
    Path(name): Path<String>,
    Body(request): Body<Preset>,
) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let preset = Preset { name, ..request };
    let stored = preset.clone();
    run_blocking(move || app.chats().put_preset(&stored)).await?;
    Ok(json(StatusCode::OK, &preset))
}

async fn delete(State(server): State<Server>, Path(name): Path<String>) -> Result<StatusCode, ApiError> {
    let app = server.app().clone();
    run_blocking(move || app.chats().delete_preset(&name)).await?;
    Ok(StatusCode::NO_CONTENT)
}
