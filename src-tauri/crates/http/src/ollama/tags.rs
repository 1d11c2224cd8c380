//! `GET /api/tags`: the models of all libraries and remotes.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::remotes::ServedModel;
use cairn_wire::Timestamp;
use cairn_wire::ollama::{TagsModel, TagsResponse};

use crate::Server;
use crate::daemon_request::IsFromDaemon;
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/tags", get(tags))
}

async fn tags(State(server): State<Server>, is_from_daemon: IsFromDaemon) -> Result<Response, ApiError> {
    let listed = served(&server, is_from_daemon).await?;
    Ok(json(StatusCode::OK, &TagsResponse { models: listed.into_iter().map(row).collect() }))
}

/// Lists the models that a client gets.
pub(crate) async fn served(server: &Server, is_from_daemon: IsFromDaemon) -> Result<Vec<ServedModel>, ApiError> {
    let remotes = server.app().remotes().clone();
    if is_from_daemon.0 {
        return Ok(server.pace().read(move || remotes.local()).await??);
    }
    remotes.settled().await;
    Ok(server.pace().read(move || remotes.served()).await??)
}

fn row(model: ServedModel) -> TagsModel {
    let ServedModel { summary: model, remotes } = model;
    TagsModel {
        details: super::details(&model.details),
        model: model.name.clone(),
        name: model.name,
        modified_at: Timestamp(model.modified_at),
        size: model.size_bytes,
        digest: model.digest,
        capabilities: model.capabilities,
        origin: model.origin.map(str::to_owned),
        remotes,
    }
}
