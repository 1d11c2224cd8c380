//! `GET /app/chats/search?q=&limit=`: titles and messages that have all the words.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::chats::{SearchHit, Snippet};
use cairn_wire::app::chats::{ChatHit, ChatSearchResponse};
use serde::Deserialize;

use super::{done, read};
use crate::Server;
use crate::error::{ApiError, json};

/// Hits, unless the client says otherwise.
const LIMIT: usize = 50;

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/chats/search", get(search))
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    q: String,
    limit: Option<usize>,
}

async fn search(
    State(server): State<Server>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Asked { q, limit } = read(asked)?;
    let app = server.app().clone();
    let hits = done(move || app.chats().search_chats(&q, limit.unwrap_or(LIMIT))).await?;
    Ok(json(StatusCode::OK, &ChatSearchResponse { hits: hits.into_iter().map(hit).collect() }))
}

fn hit(hit: SearchHit) -> ChatHit {
    let Snippet { text, ranges } = hit.snippet;
    let ranges = ranges.into_iter().map(|range| [units(&text, range.start), units(&text, range.end)]).collect();
    ChatHit { chat: hit.chat, title: hit.title, message: hit.message.map(|id| id.to_string()), snippet: text, ranges }
}

/// How many UTF-16 code units come before a place in a text.
fn units(text: &str, at: usize) -> u32 {
    let units = text.get(..at).unwrap_or(text).encode_utf16().count();
    u32::try_from(units).unwrap_or(u32::MAX)
}
