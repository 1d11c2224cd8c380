//! `/app/chats/{id}/answer`: another answer, more of one, or following the one under way. `POST /app/chats/{id}/stop`.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use cairn_app::chats::{Again, Follower, Line};
use cairn_wire::app::chats::{AnswerRequest, StoppedResponse};

use super::{id, told};
use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};
use crate::ndjson::{self, Events};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/chats/{id}/answer", get(follow).post(again)).route("/app/chats/{id}/stop", post(stop))
}

impl Events for Follower {
    type Event = Line;

    fn next(&mut self) -> impl Future<Output = Option<Line>> + Send {
        Follower::next(self)
    }
}

/// The lines of an answer, as they come.
pub(super) fn streamed(server: &Server, follower: Follower) -> Response {
    ndjson::stream(follower, server.activity().begin(), |line| Ok(told::line(line)))
}

async fn follow(State(server): State<Server>, Path(chat): Path<String>) -> Result<Response, ApiError> {
    Ok(streamed(&server, server.app().chats().follow_chat(&chat)?))
}

async fn again(
    State(server): State<Server>,
    Path(chat): Path<String>,
    Body(asked): Body<AnswerRequest>,
) -> Result<Response, ApiError> {
    let again = Again {
        message: asked.message.as_deref().map(id).transpose()?,
        go_on: asked.go_on.as_deref().map(id).transpose()?,
        model: asked.model,
        think: asked.think,
        options: asked.options,
    };
    let follower = server.app().chats().answer_again(&chat, again, server.activity().begin()).await?;
    Ok(streamed(&server, follower))
}

async fn stop(State(server): State<Server>, Path(chat): Path<String>) -> Response {
    let stopped = server.app().chats().stop_chat(&chat).await;
    json(StatusCode::OK, &StoppedResponse { stopped })
}
