//! `GET /app/chats/search?q=&limit=`: finds titles and messages that contain all words.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::chats::{SearchHit, Snippet};
use cairn_wire::app::chats::{ChatHit, ChatSearchResponse};
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
    Ok(json(StatusCode::OK, &ChatSearchResponse { hits: hits.into_iter().map(hit).collect() }))
}

fn hit(hit: SearchHit) -> ChatHit {
    let Snippet { text, ranges } = hit.snippet;
    let offset = |byte| utf16_offset(&text, byte);
    let ranges = ranges.into_iter().map(|range| [offset(range.start), offset(range.end)]).collect();
    ChatHit { chat: hit.chat, title: hit.title, message: hit.message.map(|id| id.to_string()), snippet: text, ranges }
}

/// Converts a byte offset in a text to an offset in UTF-16 code units.
fn utf16_offset(text: &str, byte: usize) -> u32 {
    let units = text.get(..byte).unwrap_or(text).encode_utf16().count();
    u32::try_from(units).unwrap_or(u32::MAX)
}
