//! `/app/chats/{id}/messages`: lists and sends messages. `PUT /app/chats/{id}/head` selects the shown branch.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, put};
use cairn_app::chats::PathPart;
use cairn_wire::app::chats::{HeadRequest, SendRequest};
use serde::Deserialize;

use super::{answer, query, run_blocking};
use crate::Server;
use crate::body::{Body, BodyLimit};
use crate::error::{ApiError, json};

/// Default number of messages on a page.
const DEFAULT_LIMIT: usize = 100;

pub(super) fn routes() -> Router<Server> {
    let messages = get(messages).post(send).layer(BodyLimit::PROMPT.layer());
    Router::new().route("/app/chats/{id}/messages", messages).route("/app/chats/{id}/head", put(head))
}

#[derive(Deserialize)]
struct MessagesQuery {
    leaf: Option<String>,
    before: Option<String>,
    limit: Option<usize>,
}

async fn messages(
    State(server): State<Server>,
    Path(chat): Path<String>,
    request: Result<Query<MessagesQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let request = query(request)?;
    let MessagesQuery { leaf, before, limit } = request;
    let part = PathPart { leaf, before, limit: limit.unwrap_or(DEFAULT_LIMIT) };
    let app = server.app().clone();
    Ok(json(StatusCode::OK, &run_blocking(move || app.chats().chat_path(&chat, &part)).await?))
}

async fn send(
    State(server): State<Server>,
    Path(chat): Path<String>,
    Body(request): Body<SendRequest>,
) -> Result<Response, ApiError> {
    // The guard keeps the daemon alive until the answer ends, even if the client disconnects.
    let follower = server.app().chats().ask_in_chat(&chat, request, server.activity().begin()).await?;
    Ok(answer::stream(&server, follower))
}

async fn head(
    State(server): State<Server>,
    Path(chat): Path<String>,
    Body(request): Body<HeadRequest>,
) -> Result<Response, ApiError> {
    let app = server.app().clone();
    Ok(json(StatusCode::OK, &run_blocking(move || app.chats().show_branch(&chat, &request.message)).await?))
}
