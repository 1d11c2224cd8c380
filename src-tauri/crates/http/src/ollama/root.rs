//! `GET /`: how clients find out that a server is there.

use axum::Router;
use axum::routing::get;

use crate::Server;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/", get(async || "Ollama is running"))
}
