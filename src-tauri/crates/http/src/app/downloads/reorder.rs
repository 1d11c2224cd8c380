//! `POST /app/downloads/reorder`: moves a download to another position. Downloads run in the order of the list.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use cairn_wire::app::ReorderRequest;

use super::listed;
use crate::Server;
use crate::body::Body;
use crate::error::ApiError;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/downloads/reorder", post(reorder))
}

async fn reorder(State(server): State<Server>, Body(request): Body<ReorderRequest>) -> Result<Response, ApiError> {
    server.app().transfers().reorder(&request.download, request.position).await?;
    Ok(listed(server.app()))
}
