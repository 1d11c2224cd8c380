//! Status of the tiers: health, sizes and counters.

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use super::Tiers;
use super::counters::{DroppedWrites, Event, Health, RestoreCounts, TierCounters};
use super::lower::WriteState;
use super::state::State;
use crate::catalog::{LOWER_TIERS, TIER_KINDS};
use crate::tier::TierKind;

/// Maximum number of queued events per listener; a slow listener misses the rest.
const EVENT_QUEUE_LENGTH: usize = 256;
/// Status of a tier.
#[derive(Clone, Debug, PartialEq)]
pub struct TierStatus {
    /// Which tier.
    pub kind: TierKind,
    /// Health of the tier.
    pub health: Health,
    /// Last error, if the tier is not healthy.
    pub last_error: Option<String>,
    /// Budget in bytes.
    pub budget_bytes: u64,
    /// Size in bytes, including chunks that are being written or removed.
    pub used_bytes: u64,
    /// Number of chunks.
    pub chunks: usize,
    /// Number of chunks that wait to be written.
    pub queued_chunks: usize,
    /// Size of these chunks.
    pub queued_bytes: u64,
    /// Number of chunks that were deleted or evicted and wait for their removal, for example because the tier is unavailable.
    pub removing_chunks: usize,
    /// Bytes written today (UTC).
    pub written_today_bytes: u64,
    /// Counters since the start.
    pub counters: TierCounters,
}

/// Status of all tiers.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Configured tiers, fastest first.
    pub tiers: Vec<TierStatus>,
    /// Chunks that were not written.
    pub dropped: DroppedWrites,
    /// Restores, by their end.
    pub restores: RestoreCounts,
    /// Chunks that RAM had no room for.
    pub rejected: u64,
    /// Why owners, uses and pins are not persisted, if the index could not be opened.
    pub index_error: Option<String>,
}

impl State {
    fn health(&self, tier: TierKind, now: Duration) -> Health {
        if tier == TierKind::Ram {
            return Health::Up;
        }
        let lower_state = self.lower(tier);
        match lower_state.writable {
            _ if self.is_unavailable(tier, now) => Health::Unavailable,
            WriteState::Disabled => Health::Suspect,
            _ if !lower_state.is_writable(now) => Health::ReadOnly,
            _ if lower_state.scanned_at.is_none() => Health::Scanning,
            _ => Health::Up,
        }
    }

    /// Emits an event for each tier whose health changed. All tiers start as scanning.
    pub(super) fn update_health(&mut self, now: Duration) {
        for tier in LOWER_TIERS {
            if !self.lower(tier).is_configured {
                continue;
            }
            let health = self.health(tier, now);
            let before = self.counts.health[tier as usize].replace(health);
            if before.unwrap_or(Health::Scanning) != health {
                self.counts.emit(&Event::Health(tier, health));
            }
        }
    }
}

impl Tiers {
    /// Returns the current status.
    pub fn status(&self) -> Status {
        let (now, unix_s) = (self.inner.clock.now(), self.inner.clock.unix_s());
        let state = self.inner.lock();
        let present = |tier: &TierKind| *tier == TierKind::Ram || state.lower(*tier).is_configured;
        let tiers = TIER_KINDS.into_iter().filter(present).map(|tier| {
            let lower_state = (tier != TierKind::Ram).then(|| state.lower(tier));
            let chunks = state.catalog.tier(tier);
            let health = state.health(tier, now);
            let ill = !matches!(health, Health::Up | Health::Scanning);
            TierStatus {
                kind: tier,
                health,
                last_error: lower_state.filter(|_| ill).and_then(|lower_state| lower_state.last_error.clone()),
                budget_bytes: chunks.budget(),
                used_bytes: if tier == TierKind::Ram { state.ram_used() } else { state.used_bytes(tier) },
                chunks: chunks.len(),
                queued_chunks: lower_state
                    .map_or(0, |lower_state| lower_state.queue.len() + usize::from(lower_state.saving.is_some())),
                queued_bytes: lower_state.map_or(0, |lower_state| {
                    lower_state.queue.bytes() + lower_state.saving.map_or(0, |(_, bytes)| bytes)
                }),
                removing_chunks: lower_state.map_or(0, |lower_state| lower_state.removal_count()),
                written_today_bytes: lower_state.map_or(0, |lower_state| lower_state.written_on_day_of(unix_s)),
                counters: state.counts.flows[tier as usize],
            }
        });
        Status {
            tiers: tiers.collect(),
            dropped: state.counts.dropped,
            restores: state.counts.restores,
            rejected: state.counts.rejected,
            index_error: self.inner.index_error.clone(),
        }
    }

    /// Subscribes to events. A slow listener misses events and should read [`Tiers::status`].
    pub fn events(&self) -> Receiver<Event> {
        let (sender, receiver) = sync_channel(EVENT_QUEUE_LENGTH);
        self.inner.lock().counts.listeners.push(sender);
        receiver
    }
}
