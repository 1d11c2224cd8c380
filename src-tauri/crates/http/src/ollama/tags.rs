//! `GET /api/tags`: the models of all libraries.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::library::Summary;
use cairn_wire::Timestamp;
use cairn_wire::ollama::{TagsModel, TagsResponse};

use crate::Server;
use crate::error::{ApiError, blocking, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/tags", get(tags))
}

async fn tags(State(server): State<Server>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let listed = blocking(move || app.library().list()).await??;
    Ok(json(StatusCode::OK, &TagsResponse { models: listed.into_iter().map(row).collect() }))
}

fn row(model: Summary) -> TagsModel {
    TagsModel {
        details: super::details(&model.details),
        model: model.name.clone(),
        name: model.name,
        modified_at: Timestamp(model.modified_at),
        size: model.size_bytes,
        digest: model.digest,
        capabilities: model.capabilities,
        origin: model.origin.map(str::to_owned),
    }
}
