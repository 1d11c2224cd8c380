//! `GET /app/cache/contexts`, and `POST /app/cache/pin`, `unpin` and `prefetch`.

use std::time::{Duration, UNIX_EPOCH};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use cairn_app::App;
use cairn_app::cache::{CachedContext, TierKind};
use cairn_wire::Timestamp;
use cairn_wire::app::{CacheContext, CacheContexts, CacheOwner, CachePrefetched, CacheWhich};

use crate::Server;
use crate::body::Body;
use crate::cache_scope;
use crate::error::{ApiError, json};

/// Limit of listed contexts.
const MAX_CONTEXTS: usize = 1000;

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/cache/contexts", get(list))
        .route("/app/cache/pin", post(pin))
        .route("/app/cache/unpin", post(unpin))
        .route("/app/cache/prefetch", post(prefetch))
}

async fn list(State(server): State<Server>) -> Response {
    listed(server.app())
}

async fn pin(State(server): State<Server>, Body(request): Body<CacheWhich>) -> Result<Response, ApiError> {
    server.app().cache().pin_context(&request.context, true)?;
    Ok(listed(server.app()))
}

async fn unpin(State(server): State<Server>, Body(request): Body<CacheWhich>) -> Result<Response, ApiError> {
    server.app().cache().pin_context(&request.context, false)?;
    Ok(listed(server.app()))
}

async fn prefetch(State(server): State<Server>, Body(request): Body<CacheOwner>) -> Result<Response, ApiError> {
    let contexts = server.app().cache().prefetch_owner(&owner(&request)?)?;
    Ok(json(StatusCode::ACCEPTED, &CachePrefetched { contexts: contexts as u64 }))
}

/// Parses the owner of a request body.
pub(super) fn owner(request: &CacheOwner) -> Result<cairn_app::cache::Owner, ApiError> {
    let error = || ApiError::bad_request(format!("invalid owner: {}", cache_scope::owner_rule()));
    cache_scope::parse_owner(&request.owner).ok_or_else(error)
}

fn listed(app: &App) -> Response {
    let contexts = app.cache().contexts(MAX_CONTEXTS).into_iter().map(context).collect();
    json(StatusCode::OK, &CacheContexts { contexts })
}

fn context(kept: CachedContext) -> CacheContext {
    let CachedContext { id, model, context } = kept;
    let bytes_in =
        |tier: TierKind| context.bytes_by_tier.iter().find(|(kind, _)| *kind == tier).map_or(0, |(_, bytes)| *bytes);
    CacheContext {
        id,
        owners: context.owners.iter().map(ToString::to_string).collect(),
        model,
        tokens: context.tokens,
        bytes: context.bytes,
        ram_bytes: bytes_in(TierKind::Ram),
        ssd_bytes: bytes_in(TierKind::Ssd),
        remote_bytes: bytes_in(TierKind::Remote),
        hits: u64::from(context.hits),
        last_used_at: Timestamp(UNIX_EPOCH + Duration::from_secs(context.last_use_unix_s)),
        pinned: context.pinned,
    }
}
