//! `GET /app/cache/contexts`, and what is to stay or to come up: `POST /app/cache/pin`, `unpin`, `prefetch`.

use std::time::{Duration, UNIX_EPOCH};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use cairn_app::App;
use cairn_app::cache::{KeptContext, TierKind};
use cairn_wire::Timestamp;
use cairn_wire::app::{CacheContext, CacheContexts, CacheOwner, CachePrefetched, CacheWhich};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, json};
use crate::whose;

/// The most that a list has.
const MOST: usize = 1000;

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

async fn pin(State(server): State<Server>, Body(which): Body<CacheWhich>) -> Result<Response, ApiError> {
    server.app().cache().pin_context(&which.context, true)?;
    Ok(listed(server.app()))
}

async fn unpin(State(server): State<Server>, Body(which): Body<CacheWhich>) -> Result<Response, ApiError> {
    server.app().cache().pin_context(&which.context, false)?;
    Ok(listed(server.app()))
}

async fn prefetch(State(server): State<Server>, Body(asked): Body<CacheOwner>) -> Result<Response, ApiError> {
    let contexts = server.app().cache().prefetch_owner(&owner(&asked)?)?;
    Ok(json(StatusCode::ACCEPTED, &CachePrefetched { contexts: contexts as u64 }))
}

/// The owner that a body names.
pub(super) fn owner(asked: &CacheOwner) -> Result<cairn_app::cache::Owner, ApiError> {
    whose::named(&asked.owner).ok_or_else(|| ApiError::bad_request(format!("an owner is {}", whose::owner_rule())))
}

fn listed(app: &App) -> Response {
    let contexts = app.cache().contexts(MOST).into_iter().map(context).collect();
    json(StatusCode::OK, &CacheContexts { contexts })
}

fn context(kept: KeptContext) -> CacheContext {
    let KeptContext { id, model, context } = kept;
    let held =
        |place: TierKind| context.bytes_by_tier.iter().find(|(held, _)| *held == place).map_or(0, |(_, bytes)| *bytes);
    CacheContext {
        id,
        owners: context.owners.iter().map(ToString::to_string).collect(),
        model,
        tokens: context.tokens,
        bytes: context.bytes,
        ram_bytes: held(TierKind::Ram),
        ssd_bytes: held(TierKind::Ssd),
        remote_bytes: held(TierKind::Remote),
        hits: u64::from(context.hits),
        last_used_at: Timestamp(UNIX_EPOCH + Duration::from_secs(context.last_use_unix_s)),
        pinned: context.pinned,
    }
}
