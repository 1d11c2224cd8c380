//! `POST /app/stop`: shuts the daemon down.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;

use crate::Server;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/stop", post(stop))
}

async fn stop(State(server): State<Server>) -> StatusCode {
    server.stop();
    StatusCode::ACCEPTED
}
