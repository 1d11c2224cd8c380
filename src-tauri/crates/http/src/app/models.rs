//! `POST /app/copy`, `POST /app/delete`: what `/api` does too, with what it costs or frees.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_wire::app::{CopyResponse, DeleteResponse};
use cairn_wire::ollama::{CopyRequest, DeleteRequest};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/copy", post(copy)).route("/app/delete", post(delete))
}

async fn copy(State(server): State<Server>, Body(request): Body<CopyRequest>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let CopyRequest { source, destination } = request;
    let from = source.clone();
    let copied = tokio::task::spawn_blocking(move || app.copy(&from, &destination)).await;
    let copied = copied.expect("copying does not panic")?;
    let copied_bytes = Some(copied.copied_bytes);
    Ok(json(StatusCode::OK, &CopyResponse { source, destination: copied.name, copied_bytes }))
}

async fn delete(State(server): State<Server>, Body(request): Body<DeleteRequest>) -> Result<Response, ApiError> {
    let name = if request.model.is_empty() { request.name } else { request.model };
    let app = server.app().clone();
    let deleted = tokio::task::spawn_blocking(move || app.delete(&name)).await;
    let deleted = deleted.expect("deleting does not panic")?;
    Ok(json(StatusCode::OK, &DeleteResponse { model: deleted.name, freed_bytes: Some(deleted.freed_bytes) }))
}
