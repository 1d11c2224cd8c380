//! `/app/chats/{id}/messages`: lists and sends messages. `PUT /app/chats/{id}/head` selects the shown branch.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, put};
use cairn_app::chats::{Ask, PathPart};
use cairn_wire::app::chats::{HeadRequest, MessagesResponse, SendRequest};
use serde::Deserialize;

use super::{answer, id, query, run_blocking, wire_types};
use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};

/// Default number of messages on a page.
const DEFAULT_LIMIT: usize = 100;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/chats/{id}/messages", get(messages).post(send)).route("/app/chats/{id}/head", put(head))
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
    let part = PathPart {
        leaf: request.leaf.as_deref().map(id).transpose()?,
        before: request.before.as_deref().map(id).transpose()?,
        limit: request.limit.unwrap_or(DEFAULT_LIMIT),
    };
    let app = server.app().clone();
    let path = run_blocking(move || app.chats().chat_path(&chat, part)).await?;
    let messages = path.messages.into_iter().map(wire_types::message).collect();
    Ok(json(StatusCode::OK, &MessagesResponse { messages, total: path.total, before: path.before }))
}

async fn send(
    State(server): State<Server>,
    Path(chat): Path<String>,
    Body(request): Body<SendRequest>,
) -> Result<Response, ApiError> {
    let parent = match request.parent {
        None => None,
        Some(None) => Some(None),
        Some(Some(parent)) => Some(Some(id(&parent)?)),
    };
    let ask = Ask {
        parent,
        content: request.content,
        images: request.images,
        files: request.files.into_iter().map(wire_types::attachment).collect(),
        model: request.model,
        think: request.think,
        options: request.options,
    };
    // The guard keeps the daemon alive until the answer ends, even if the client disconnects.
    let follower = server.app().chats().ask_in_chat(&chat, ask, server.activity().begin()).await?;
    Ok(answer::stream(&server, follower))
}

async fn head(
    State(server): State<Server>,
    Path(chat): Path<String>,
    Body(request): Body<HeadRequest>,
) -> Result<Response, ApiError> {
    let (app, message) = (server.app().clone(), id(&request.message)?);
    let (chat, summary) = run_blocking(move || app.chats().show_branch(&chat, message)).await?;
    Ok(json(StatusCode::OK, &wire_types::chat(chat, summary)))
}
