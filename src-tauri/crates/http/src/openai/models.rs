//! `GET /v1/models` and `GET /v1/models/{model}`.

use std::time::UNIX_EPOCH;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::library::Summary;
use cairn_wire::openai::{Model, ModelList};

use crate::Server;
use crate::error::{ApiError, blocking, json};

pub(super) fn routes() -> Router<Server> {
    // Names may contain slashes.
    Router::new().route("/v1/models", get(list)).route("/v1/models/{*model}", get(show))
}

async fn list(State(server): State<Server>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let models = blocking(move || app.library().list()).await??;
    let data = models.into_iter().map(row).collect();
    Ok(json(StatusCode::OK, &ModelList { object: "list".to_owned(), data }))
}

async fn show(State(server): State<Server>, Path(model): Path<String>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let shown = blocking(move || app.library().show(&model, false)).await??;
    Ok(json(StatusCode::OK, &row(shown.summary)))
}

fn row(model: Summary) -> Model {
    let created = model.modified_at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // The name without its last part. Names of the official library have one part only.
    let owner = model.name.rsplit_once('/').map_or("library", |(owner, _)| owner);
    Model {
        owned_by: owner.to_owned(),
        id: model.name,
        object: "model".to_owned(),
        created: i64::try_from(created).unwrap_or(i64::MAX),
    }
}
