//! `POST /app/downloads/pause`: pauses a download until it is resumed. The pause persists across restarts.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use cairn_wire::app::DownloadChoice;

use super::listed;
use crate::Server;
use crate::body::Body;
use crate::error::ApiError;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/downloads/pause", post(pause))
}

async fn pause(State(server): State<Server>, Body(choice): Body<DownloadChoice>) -> Result<Response, ApiError> {
    server.app().transfers().pause(&choice.download).await?;
    Ok(listed(server.app()))
}
