//! `POST /api/copy`: copies a model to a second name.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use cairn_wire::ollama::CopyRequest;

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, blocking};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/copy", post(copy))
}

async fn copy(State(server): State<Server>, Body(request): Body<CopyRequest>) -> Result<StatusCode, ApiError> {
    let app = server.app().clone();
    blocking(move || app.library().copy(&request.source, &request.destination)).await??;
    Ok(StatusCode::OK)
}
