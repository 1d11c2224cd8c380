//! `POST /app/downloads/cap`: limits the total speed of all downloads until the daemon stops.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use cairn_wire::app::CapRequest;

use super::listed;
use crate::Server;
use crate::body::Body;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/downloads/cap", post(cap))
}

async fn cap(State(server): State<Server>, Body(request): Body<CapRequest>) -> Response {
    server.app().transfers().set_speed_limit(request.bytes_per_second.filter(|limit| *limit > 0));
    listed(server.app())
}
