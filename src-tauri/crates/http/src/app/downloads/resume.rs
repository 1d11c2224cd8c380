//! `POST /app/downloads/resume`: resumes a download that is paused, stopped or failed.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use cairn_wire::app::ResumeRequest;

use super::listed;
use crate::Server;
use crate::body::Body;
use crate::error::ApiError;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/downloads/resume", post(resume))
}

async fn resume(State(server): State<Server>, Body(request): Body<ResumeRequest>) -> Result<Response, ApiError> {
    server.app().transfers().resume(&request.download, request.force).await?;
    Ok(listed(server.app()))
}
