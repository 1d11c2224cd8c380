//! `POST /app/documents`: the text of a document. Its bytes are the body of the request.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use serde::Deserialize;

use crate::Server;
use crate::body::{BodyLimit, FileBytes};
use crate::error::{ApiError, json};

/// Longest file name, as of most file systems.
const MAX_NAME_BYTES: usize = 255;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/documents", post(text).layer(BodyLimit::DOCUMENT.layer()))
}

#[derive(Deserialize)]
pub(super) struct NameQuery {
    name: String,
}

/// Returns the file name of a request.
pub(super) fn file_name(request: Result<Query<NameQuery>, QueryRejection>) -> Result<String, ApiError> {
    let Query(NameQuery { name }) = request.map_err(|rejection| ApiError::bad_request(rejection.body_text()))?;
    match name.len() > MAX_NAME_BYTES {
        true => Err(ApiError::bad_request(format!("invalid name: it is longer than {MAX_NAME_BYTES} bytes"))),
        false => Ok(name),
    }
}

async fn text(
    State(server): State<Server>,
    request: Result<Query<NameQuery>, QueryRejection>,
    FileBytes { bytes, memory }: FileBytes,
) -> Result<Response, ApiError> {
    let name = file_name(request)?;
    let text = server.app().documents().text(&name, bytes).await?;
    drop(memory);
    Ok(json(StatusCode::OK, &text))
}
