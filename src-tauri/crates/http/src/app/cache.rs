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
use cairn_app::cache::{CacheStatus, Health, HourCounts, PromptCounts, RecomputeReason, TierKind, TierStatus};
use cairn_wire::Timestamp;
use cairn_wire::app::{CacheHour, CacheRecomputed, CacheResponse, CacheTier, TierName};

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
        recomputed: status.recomputed.reasons().map(recomputed).collect(),
        hours: status.hours.into_iter().map(hour).collect(),
        cut_short: tiers.restores.missed + tiers.restores.deadline,
        dropped: dropped.queue_full + dropped.no_room + dropped.daily_cap + dropped.orphaned + dropped.failed,
        tiers: tiers.tiers.iter().map(tier).collect(),
    }
}

fn recomputed((reason, tokens): (RecomputeReason, u64)) -> CacheRecomputed {
    CacheRecomputed { reason: reason.name().to_owned(), tokens }
}

fn hour(one: HourCounts) -> CacheHour {
    const HOUR_MS: i64 = 3_600_000;
    let PromptCounts { page_tokens, restored_tokens: [ram_tokens, ssd_tokens, remote_tokens], computed_tokens, .. } =
        one.counts;
    let at = Timestamp::from_unix_ms(i64::try_from(one.hour).unwrap_or_default().saturating_mul(HOUR_MS));
    CacheHour { at, memory_tokens: page_tokens, ram_tokens, ssd_tokens, remote_tokens, computed_tokens }
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
