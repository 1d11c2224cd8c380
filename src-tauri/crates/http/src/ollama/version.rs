//! `GET /api/version`.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_wire::ollama::VersionResponse;

use crate::Server;
use crate::daemon_request::IsFromDaemon;
use crate::error::json;

/// The version of Ollama with the API of this server: the one that added log probabilities.
const OLLAMA_VERSION: &str = "0.12.11";

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/version", get(version))
}

async fn version(State(server): State<Server>, is_from_daemon: IsFromDaemon) -> Response {
    let cairn = Some(cairn_app::VERSION.to_owned());
    let instance = is_from_daemon.0.then(|| server.app().remotes().instance().to_owned());
    json(StatusCode::OK, &VersionResponse { version: OLLAMA_VERSION.to_owned(), cairn, instance })
}
