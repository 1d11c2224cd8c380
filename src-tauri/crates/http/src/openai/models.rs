//! `GET /v1/models` and `GET /v1/models/{model}`.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::library::Summary;
use cairn_wire::openai::{Model, ModelList};

use crate::Server;
use crate::daemon_request::IsFromDaemon;
use crate::error::{ApiError, json};
use crate::ollama::tags::served;

pub(super) fn routes() -> Router<Server> {
    // Names may contain slashes.
    Router::new().route("/v1/models", get(list)).route("/v1/models/{*model}", get(show))
}

async fn list(State(server): State<Server>, is_from_daemon: IsFromDaemon) -> Result<Response, ApiError> {
    let models = served(&server, is_from_daemon).await?;
    let data = models.into_iter().map(|model| row(model.summary)).collect();
    Ok(json(StatusCode::OK, &ModelList { object: "list".to_owned(), data }))
}

async fn show(
    State(server): State<Server>,
    is_from_daemon: IsFromDaemon,
    Path(model): Path<String>,
) -> Result<Response, ApiError> {
    let (app, name) = (server.app().clone(), model.clone());
    let error = match server.pace().read(move || app.library().show(&name, false)).await? {
        Ok(shown) => return Ok(json(StatusCode::OK, &row(shown.summary))),
        Err(error) => error,
    };
    let shown = is_from_daemon.inference(&server).show_at_remote(&model, error).await?;
    Ok(json(StatusCode::OK, &model_row(model, shown.modified_at.0)))
}

fn row(model: Summary) -> Model {
    model_row(model.name, model.modified_at)
}

fn model_row(name: String, modified_at: SystemTime) -> Model {
    let created = modified_at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // The name without its last part. Names of the official library have one part only.
    let owner = name.rsplit_once('/').map_or("library", |(owner, _)| owner);
    Model {
        owned_by: owner.to_owned(),
        id: name,
        object: "model".to_owned(),
        created: i64::try_from(created).unwrap_or(i64::MAX),
    }
}
