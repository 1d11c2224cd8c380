//! `/app/chats/{id}/answer`: regenerates, continues or follows an answer. `POST /app/chats/{id}/stop` stops it, and
//! `POST /app/chats/{id}/calls/{call}` decides on a call of a tool that waits.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use cairn_app::chats::Follower;
use cairn_wire::app::chats::{AnswerRequest, ChatLine, DecideCallRequest, StoppedResponse};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};
use crate::ndjson;
use crate::streaming::Events;

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/chats/{id}/answer", get(follow).post(answer))
        .route("/app/chats/{id}/stop", post(stop))
        .route("/app/chats/{id}/calls/{call}", post(decide))
}

impl Events for Follower {
    type Event = ChatLine;

    fn next(&mut self) -> impl Future<Output = Option<ChatLine>> + Send {
        Follower::next(self)
    }
}

/// Streams the events of an answer.
pub(super) fn stream(server: &Server, follower: Follower) -> Response {
    ndjson::stream(follower, server.activity().begin(), Ok)
}

/// Follows the answer in progress. A client may be later than its end, so that it is no error if there is none.
async fn follow(State(server): State<Server>, Path(chat): Path<String>) -> Result<Response, ApiError> {
    let follower = server.app().chats().follow_chat(&chat).await?;
    Ok(follower.map_or_else(|| StatusCode::NO_CONTENT.into_response(), |follower| stream(&server, follower)))
}

async fn answer(
    State(server): State<Server>,
    Path(chat): Path<String>,
    Body(request): Body<AnswerRequest>,
) -> Result<Response, ApiError> {
    let follower = server.app().chats().answer_again(&chat, request, server.activity().begin()).await?;
    Ok(stream(&server, follower))
}

async fn stop(State(server): State<Server>, Path(chat): Path<String>) -> Response {
    let stopped = server.app().chats().stop_chat(&chat).await;
    json(StatusCode::OK, &StoppedResponse { stopped })
}

async fn decide(
    State(server): State<Server>,
    Path((chat, call)): Path<(String, String)>,
    Body(DecideCallRequest { decision }): Body<DecideCallRequest>,
) -> Result<StatusCode, ApiError> {
    server.app().chats().decide_call(&chat, &call, decision).await?;
    Ok(StatusCode::NO_CONTENT)
}
