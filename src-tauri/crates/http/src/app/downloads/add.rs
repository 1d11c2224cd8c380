//! `POST /app/downloads`: pulls a model in the background.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use cairn_app::transfers::Pull;
use cairn_wire::app::DownloadRequest;

use super::download;
use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};

pub(super) async fn add(
    State(server): State<Server>,
    Body(request): Body<DownloadRequest>,
) -> Result<Response, ApiError> {
    let DownloadRequest { model: name, insecure, sources, force } = request;
    let pull = Pull { name, insecure, sources, force };
    let row = server.app().transfers().pull_detached(pull).await?;
    Ok(json(StatusCode::ACCEPTED, &download(row)))
}
