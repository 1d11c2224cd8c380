//! `GET /app/chats/search?q=&limit=`: finds titles and messages that contain all words.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_wire::app::chats::ChatSearchResponse;
use serde::Deserialize;

use super::{query, run_blocking};
use crate::Server;
use crate::error::{ApiError, json};

/// Default number of hits.
const DEFAULT_LIMIT: usize = 50;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/chats/search", get(search))
}

#[derive(Deserialize)]
struct SearchQuery {
    #[serde(default)]
    q: String,
    limit: Option<usize>,
}

async fn search(
    State(server): State<Server>,
    request: Result<Query<SearchQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let SearchQuery { q, limit } = query(request)?;
    let app = server.app().clone();
    let hits = run_blocking(move || app.chats().search_chats(&q, limit.unwrap_or(DEFAULT_LIMIT))).await?;
    Ok(json(StatusCode::OK, &ChatSearchResponse { hits }))
}
