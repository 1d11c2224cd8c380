//! `/app/cache/limits`: the budgets of the tiers and the folder of the SSD tier.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::cache::{CacheLimits, EffectiveLimit, LimitChange};
use cairn_wire::app::{self as wire, CacheLimit, CacheLimitsChange};

use crate::Server;
use crate::body::Body;
use crate::error::{ApiError, blocking, json};

pub(super) fn routes() -> Router<Server> {
    Router::new().route("/app/cache/limits", get(limits).put(change))
}

async fn limits(State(server): State<Server>) -> Response {
    json(StatusCode::OK, &response(server.app().cache().limits()))
}

async fn change(State(server): State<Server>, Body(request): Body<CacheLimitsChange>) -> Result<Response, ApiError> {
    let change = LimitChange {
        ram_bytes: request.ram_bytes,
        folder: request.folder.map(Into::into),
        folder_bytes: request.folder_bytes,
    };
    let app = server.app().clone();
    let limits = blocking(move || app.set_cache_limits(change)).await??;
    Ok(json(StatusCode::OK, &response(limits)))
}

fn response(limits: CacheLimits) -> wire::CacheLimits {
    let CacheLimits { ram_bytes, folder, folder_bytes, at_next_start } = limits;
    wire::CacheLimits {
        ram_bytes: limit(ram_bytes, |bytes| bytes),
        folder: limit(folder, |folder| folder.display().to_string()),
        folder_bytes: limit(folder_bytes, |bytes| bytes),
        at_next_start,
    }
}

fn limit<T, U>(limit: EffectiveLimit<T>, convert: impl FnOnce(T) -> U) -> CacheLimit<U> {
    CacheLimit { value: limit.value.map(convert), variable: limit.variable.map(str::to_owned) }
}
