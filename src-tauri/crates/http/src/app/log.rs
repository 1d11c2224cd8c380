//! `GET /app/log?lines=N`: the end of the daemon's log.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_wire::app::LogResponse;
use cairn_wire::{ErrorCode, beginning};
use serde::Deserialize;

use crate::Server;
use crate::error::{ApiError, blocking, json};

/// Number of lines if the request does not set it.
const DEFAULT_LINES: usize = 200;
/// Maximum number of lines.
const MAX_LINES: usize = 1000;
/// Maximum length of a line in characters.
const MAX_LINE_CHARS: usize = 2000;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/log", get(log))
}

#[derive(Deserialize)]
struct LogQuery {
    lines: Option<usize>,
}

async fn log(
    State(server): State<Server>,
    request: Result<Query<LogQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(request) = request.map_err(|rejection| ApiError::bad_request(rejection.body_text()))?;
    let count = request.lines.unwrap_or(DEFAULT_LINES).min(MAX_LINES);
    let app = server.app().clone();
    let end = blocking(move || app.system().log(count)).await?.map_err(|error| {
        let text = format!("cannot read the log: {error}");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, ErrorCode::Internal, text)
    })?;
    let lines = end.lines.iter().map(|line| beginning(line, MAX_LINE_CHARS).into_owned()).collect();
    Ok(json(StatusCode::OK, &LogResponse { path: end.path.display().to_string(), lines }))
}
