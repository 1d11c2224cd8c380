//! Deletion from the cache: `POST /app/cache/drop` (one context), `DELETE /app/cache/owner` and
//! `POST /app/cache/clear`. The responses are sent after the files are removed.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, post};
use cairn_app::cache::{Deletion, TierKind};
use cairn_wire::app::{CacheClear, CacheDeleted, CacheOwner, CacheWhich, TierName};

use super::contexts::owner;
use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, blocking, json};

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/cache/drop", post(context))
        .route("/app/cache/owner", delete(owned))
        .route("/app/cache/clear", post(clear))
}

async fn context(State(server): State<Server>, Body(request): Body<CacheWhich>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    Ok(deleted(blocking(move || app.cache().drop_context(&request.context)).await??))
}

async fn owned(State(server): State<Server>, Body(request): Body<CacheOwner>) -> Result<Response, ApiError> {
    let (app, owner) = (server.app().clone(), owner(&request)?);
    Ok(deleted(blocking(move || app.cache().forget_owner(&owner)).await?))
}

async fn clear(State(server): State<Server>, Body(request): Body<CacheClear>) -> Result<Response, ApiError> {
    let app = server.app().clone();
    let tier = request.tier.map(|tier| match tier {
        TierName::Ram => TierKind::Ram,
        TierName::Ssd => TierKind::Ssd,
        TierName::Remote => TierKind::Remote,
    });
    Ok(deleted(blocking(move || app.cache().clear(tier)).await?))
}

fn deleted(deleted: Deletion) -> Response {
    json(StatusCode::OK, &CacheDeleted { chunks: deleted.chunks as u64, left: deleted.pending as u64 })
}
