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
struct TextQuery {
    name: String,
}

async fn text(
    State(server): State<Server>,
    request: Result<Query<TextQuery>, QueryRejection>,
    FileBytes { bytes, memory }: FileBytes,
) -> Result<Response, ApiError> {
    let Query(TextQuery { name }) = request.map_err(|rejection| ApiError::bad_request(rejection.body_text()))?;
    if name.len() > MAX_NAME_BYTES {
        return Err(ApiError::bad_request(format!("invalid name: it is longer than {MAX_NAME_BYTES} bytes")));
    }
    let text = server.app().documents().text(&name, bytes).await?;
    drop(memory);
    Ok(json(StatusCode::OK, &text))
}
