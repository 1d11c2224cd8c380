//! `/app/chats/{id}/messages`: what was said, and saying more. `PUT /app/chats/{id}/head`: which branch is shown.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, put};
use cairn_app::chats::{Ask, PathPart};
use cairn_wire::app::chats::{HeadRequest, MessagesResponse, SendRequest};
use serde::Deserialize;

use super::{answer, done, id, read, told};
use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};

/// Messages of a page, unless its client says otherwise.
const LIMIT: usize = 100;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/chats/{id}/messages", get(messages).post(send)).route("/app/chats/{id}/head", put(head))
}

#[derive(Deserialize)]
struct Asked {
    leaf: Option<String>,
    before: Option<String>,
    limit: Option<usize>,
}

async fn messages(
    State(server): State<Server>,
    Path(chat): Path<String>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, ApiError> {
    let asked = read(asked)?;
    let part = PathPart {
        leaf: asked.leaf.as_deref().map(id).transpose()?,
        before: asked.before.as_deref().map(id).transpose()?,
        limit: asked.limit.unwrap_or(LIMIT),
    };
    let app = server.app().clone();
    let path = done(move || app.chats().chat_path(&chat, part)).await?;
    let messages = path.messages.into_iter().map(told::message).collect();
    Ok(json(StatusCode::OK, &MessagesResponse { messages, total: path.total, before: path.before }))
}

async fn send(
    State(server): State<Server>,
    Path(chat): Path<String>,
    Body(asked): Body<SendRequest>,
) -> Result<Response, ApiError> {
    let parent = match asked.parent {
        None => None,
        Some(None) => Some(None),
        Some(Some(parent)) => Some(Some(id(&parent)?)),
    };
    let ask = Ask {
        parent,
        content: asked.content,
        images: asked.images,
        files: asked.files.into_iter().map(told::kept_file).collect(),
        model: asked.model,
        think: asked.think,
        options: asked.options,
    };
    // The answer keeps the daemon from ending, also when its client has left.
    let follower = server.app().chats().ask_in_chat(&chat, ask, server.activity().begin()).await?;
    Ok(answer::streamed(&server, follower))
}

async fn head(
    State(server): State<Server>,
    Path(chat): Path<String>,
    Body(asked): Body<HeadRequest>,
) -> Result<Response, ApiError> {
    let (app, message) = (server.app().clone(), id(&asked.message)?);
    let (chat, summary) = done(move || app.chats().show_branch(&chat, message)).await?;
    Ok(json(StatusCode::OK, &told::chat(chat, summary)))
}
