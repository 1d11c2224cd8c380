//! `/app/chats/{id}/edit` and `/fork`, `DELETE /app/chats/{id}/messages/{message}` and its undo.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, post};
use cairn_wire::app::chats::{DeletedMessages, EditRequest, ForkRequest};

use super::run_blocking;
use crate::Server;
use crate::body::{Body, BodyLimit};
use crate::error::{ApiError, json};

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/chats/{id}/edit", post(edit).layer(BodyLimit::PROMPT.layer()))
        .route("/app/chats/{id}/fork", post(fork))
        .route("/app/chats/{id}/messages/{message}", delete(remove))
        .route("/app/chats/{id}/messages/restore", post(restore).layer(BodyLimit::EXPORT.layer()))
}

async fn edit(
    State(server): State<Server>,
    Path(chat): Path<String>,
    Body(EditRequest { message, content }): Body<EditRequest>,
) -> Result<Response, ApiError> {
    let app = server.app().clone();
    Ok(json(StatusCode::OK, &run_blocking(move || app.chats().edit_answer(&chat, &message, &content)).await?))
}

async fn fork(
    State(server): State<Server>,
    Path(chat): Path<String>,
    Body(ForkRequest { message, title }): Body<ForkRequest>,
) -> Result<Response, ApiError> {
    let app = server.app().clone();
    Ok(json(StatusCode::CREATED, &run_blocking(move || app.chats().fork_chat(&chat, &message, title)).await?))
}

async fn remove(
    State(server): State<Server>,
    Path((chat, message)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let app = server.app().clone();
    Ok(json(StatusCode::OK, &run_blocking(move || app.chats().delete_message(&chat, &message)).await?))
}

async fn restore(
    State(server): State<Server>,
    Path(chat): Path<String>,
    Body(deleted): Body<DeletedMessages>,
) -> Result<Response, ApiError> {
    let app = server.app().clone();
    Ok(json(StatusCode::OK, &run_blocking(move || app.chats().restore_messages(&chat, &deleted)).await?))
}
