//! `POST /app/open`: opens a model file on this machine without importing it and returns a name for it.

use std::path::Path;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use cairn_wire::app::{OpenRequest, OpenResponse};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, blocking, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/open", post(open))
}

async fn open(State(server): State<Server>, Body(request): Body<OpenRequest>) -> Result<Response, ApiError> {
    // The daemon and the client have different working directories.
    if !Path::new(&request.path).is_absolute() {
        return Err(ApiError::bad_request("path must be absolute"));
    }
    let app = server.app().clone();
    let opened = blocking(move || app.library().open(Path::new(&request.path))).await??;
    Ok(json(StatusCode::OK, &OpenResponse { model: opened.name, chat_template: opened.has_chat_template }))
}
