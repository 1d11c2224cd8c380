//! `DELETE /api/delete`: deletes a model from the library.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::delete;
use cairn_wire::ollama::DeleteRequest;

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, blocking};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/api/delete", delete(remove))
}

async fn remove(State(server): State<Server>, Body(request): Body<DeleteRequest>) -> Result<StatusCode, ApiError> {
    let name = if request.model.is_empty() { request.name } else { request.model };
    let app = server.app().clone();
    blocking(move || app.delete(&name)).await??;
    Ok(StatusCode::OK)
}
