//! `POST /app/downloads/discard`: cancels a download and deletes the downloaded bytes.

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
    Router::new().route("/app/downloads/discard", post(discard))
}

async fn discard(State(server): State<Server>, Body(choice): Body<DownloadChoice>) -> Result<Response, ApiError> {
    server.app().transfers().discard(&choice.download).await?;
    Ok(listed(server.app()))
}
