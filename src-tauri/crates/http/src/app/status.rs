//! `GET /app/status`: the daemon's version, process, addresses and load.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_wire::Timestamp;
use cairn_wire::app::StatusResponse;

use crate::Server;
use crate::error::json;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/status", get(status))
}

async fn status(State(server): State<Server>) -> Response {
    let status = StatusResponse {
        version: cairn_app::VERSION.to_owned(),
        pid: server.pid(),
        started_at: Timestamp(server.started_at()),
        addresses: server.addresses().iter().map(ToString::to_string).collect(),
        active_requests: server.activity().in_progress().saturating_sub(1),
        loaded_models: server.app().system().running().len() as u64,
    };
    json(StatusCode::OK, &status)
}
