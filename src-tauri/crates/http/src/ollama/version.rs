//! `GET /api/version`.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use cairn_wire::ollama::VersionResponse;

use crate::Server;
use crate::error::json;

pub(super) fn routes() -> Router<Server> {
    Router::new().route(
        "/api/version",
        get(async || json(StatusCode::OK, &VersionResponse { version: cairn_app::VERSION.to_owned() })),
    )
}
