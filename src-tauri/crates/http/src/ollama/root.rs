//! `GET /`: the text with which clients detect a running server.

use axum::Router;
use axum::routing::get;

use crate::Server;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/", get(async || "Ollama is running"))
}
