//! `GET /app/updates?model=...&insecure=true`: compares one model, or all pulled ones, with their registries.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::transfers::{ModelUpdate, UpdateState};
use cairn_wire::app as wire;
use serde::Deserialize;

use crate::Server;
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/updates", get(updates))
}

#[derive(Deserialize)]
struct UpdatesQuery {
    model: Option<String>,
    #[serde(default)]
    insecure: bool,
}

async fn updates(
    State(server): State<Server>,
    request: Result<Query<UpdatesQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(request) = request.map_err(|rejection| ApiError::bad_request(rejection.body_text()))?;
    let updates = server.app().transfers().updates(request.model.as_deref(), request.insecure).await?;
    let models = updates.into_iter().map(model).collect();
    Ok(json(StatusCode::OK, &wire::UpdatesResponse { models }))
}

fn model(update: ModelUpdate) -> wire::ModelUpdate {
    let (state, download_bytes, problem) = match update.state {
        UpdateState::Current => (wire::UpdateState::Current, None, None),
        UpdateState::Newer { download_bytes } => (wire::UpdateState::Newer, Some(download_bytes), None),
        UpdateState::Removed => (wire::UpdateState::Removed, None, None),
        UpdateState::MadeHere => (wire::UpdateState::MadeHere, None, None),
        UpdateState::Unknown(reason) => (wire::UpdateState::Unknown, None, Some(reason)),
    };
    wire::ModelUpdate { model: update.model, state, download_bytes, problem }
}
