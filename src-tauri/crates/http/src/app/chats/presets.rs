//! `/app/presets`: what new chats begin with.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::chats::Preset;
use cairn_wire::app::chats as wire;

use super::{done, think, told};
use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/presets", get(list)).route("/app/presets/{name}", get(preset).put(put).delete(delete))
}

async fn list(State(server): State<Server>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let presets = done(move || app.chats().presets()).await?;
    Ok(json(StatusCode::OK, &wire::PresetsResponse { presets: presets.into_iter().map(tell).collect() }))
}

async fn preset(State(server): State<Server>, Path(name): Path<String>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    Ok(json(StatusCode::OK, &tell(done(move || app.chats().preset(&name)).await?)))
}

async fn put(
    State(server): State<Server>,
    Path(name): Path<String>,
    Body(asked): Body<wire::Preset>,
) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let preset = Preset {
        name,
        model: asked.model,
        system: asked.system,
        options: asked.options,
        think: asked.think.map(think),
    };
    let kept = preset.clone();
    done(move || app.chats().put_preset(&kept)).await?;
    Ok(json(StatusCode::OK, &tell(preset)))
}

async fn delete(State(server): State<Server>, Path(name): Path<String>) -> Result<StatusCode, ApiError> {
    let app = server.app().clone();
    done(move || app.chats().delete_preset(&name)).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn tell(preset: Preset) -> wire::Preset {
    wire::Preset {
        name: preset.name,
        model: preset.model,
        system: preset.system,
        options: preset.options,
        think: preset.think.and_then(told::think),
    }
}
