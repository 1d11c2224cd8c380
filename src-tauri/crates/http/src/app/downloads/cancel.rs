//! `POST /app/downloads/cancel`: cancels a download and keeps the downloaded bytes.

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
    Router::new().route("/app/downloads/cancel", post(cancel))
}

async fn cancel(State(server): State<Server>, Body(choice): Body<DownloadChoice>) -> Result<Response, ApiError> {
    server.app().transfers().cancel(&choice.download).await?;
    Ok(listed(server.app()))
}
