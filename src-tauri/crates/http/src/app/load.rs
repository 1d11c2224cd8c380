//! `POST /app/load`: loads a model into memory. `force` skips the memory check.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use cairn_wire::app::LoadRequest;

use crate::Server;
use crate::body::Body;
use crate::error::ApiError;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/load", post(load))
}

async fn load(State(server): State<Server>, Body(request): Body<LoadRequest>) -> Result<StatusCode, ApiError> {
    server.app().inference().load(&request.model, request.force, request.keep_alive).await?;
    Ok(StatusCode::NO_CONTENT)
}
