//! `GET /app/cache`: status of the cache tiers. The submodules have the commands.

mod contexts;
mod delete;
mod events;
pub(crate) mod fsck;
mod limits;
mod test;
mod trace;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use cairn_app::App;
use cairn_app::cache::{CacheStatus, Health, TierKind, TierStatus};
use cairn_wire::app::{CacheResponse, CacheTier, TierName};

use crate::Server;
use crate::error::json;

pub(super) fn routes() -> Router<Server> {
    Router::new()
        .route("/app/cache", get(status))
        .merge(contexts::routes())
        .merge(delete::routes())
        .merge(events::routes())
        .merge(fsck::routes())
        .merge(limits::routes())
        .merge(test::routes())
        .merge(trace::routes())
}

async fn status(State(server): State<Server>) -> Response {
    json(StatusCode::OK, &response(server.app()))
}

fn response(app: &App) -> CacheResponse {
    let Some(status) = app.cache().status() else { return CacheResponse::default() };
    let tiers = status.tiers;
    let dropped = tiers.dropped;
    CacheResponse {
        folder: status.folder.map(|folder| folder.display().to_string()),
        remote: app.settings().at_start().tiers.remote.as_ref().map(ToString::to_string),
        key: app.cache().tier_key().map(|key| key.to_string()),
        prompt_tokens: status.prompt_tokens,
        cached_tokens: status.cached_tokens,
        saved_today_ms: u64::try_from(status.saved_today.as_millis()).unwrap_or(u64::MAX),
        cut_short: tiers.restores.missed + tiers.restores.deadline,
        dropped: dropped.queue_full + dropped.no_room + dropped.daily_cap + dropped.orphaned + dropped.failed,
        tiers: tiers.tiers.iter().map(tier).collect(),
    }
}

fn tier(status: &TierStatus) -> CacheTier {
    let counters = status.counters;
    CacheTier {
        tier: tier_name(status.kind),
        health: match status.health {
            Health::Up => "up",
            Health::Scanning => "scanning",
            Health::ReadOnly => "read_only",
            Health::Suspect => "suspect",
            Health::Unavailable => "away",
        }
        .to_owned(),
        reason: CacheStatus::reason(status.health).map(|reason| match &status.last_error {
            Some(error) => format!("{reason}: {error}"),
            None => reason.to_owned(),
        }),
        budget_bytes: status.budget_bytes,
        used_bytes: status.used_bytes,
        chunks: status.chunks as u64,
        queued_bytes: status.queued_bytes,
        removing_chunks: status.removing_chunks as u64,
        stored_bytes: counters.stored_bytes,
        restored_bytes: counters.restored_bytes,
        hit_tokens: counters.hit_tokens,
        evicted_bytes: counters.evicted_bytes,
        written_today_bytes: status.written_today_bytes,
        read_bytes_per_second: counters.read_bytes_per_s,
        damaged: counters.damaged,
    }
}

fn tier_name(tier: TierKind) -> TierName {
    match tier {
        TierKind::Ram => TierName::Ram,
        TierKind::Ssd => TierName::Ssd,
        TierKind::Remote => TierName::Remote,
    }
}
