//! `GET /api/status`: whether models of the cloud can be used. Cairn has none.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use cairn_wire::ollama::{CloudResponse, CloudStatus};

use crate::Server;
use crate::error::json;

pub(super) fn routes() -> Router<Server> {
    let cloud = CloudStatus { disabled: true, source: "none".to_owned() };
    let status = CloudResponse { cloud };
    Router::new().route("/api/status", get(async move || json(StatusCode::OK, &status)))
}
