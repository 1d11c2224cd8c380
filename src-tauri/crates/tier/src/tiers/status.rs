//! Status of the tiers: sizes, counters since the start, and events.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use super::lower::WriteState;
use super::state::State;
use super::{RestoreEnd, Tiers};
use crate::catalog::{LOWER_TIERS, TIER_KINDS};
use crate::owner::Owner;
use crate::tier::TierKind;

/// Maximum number of queued events per listener; a slow listener misses the rest.
const EVENT_QUEUE_LENGTH: usize = 256;
/// Weight of a new measurement in the moving average.
const RATE_SMOOTHING: f64 = 0.2;

/// Counters of a tier since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TierCounters {
    /// Tokens whose rows were restored from this tier.
    pub hit_tokens: u64,
    /// Chunks and bytes restored from this tier.
    pub restored_chunks: u64,
    /// See [`TierCounters::restored_chunks`].
    pub restored_bytes: u64,
    /// Moving average of the read rate; `None` before the first read.
    pub read_bytes_per_s: Option<f64>,
    /// Chunks and bytes stored in this tier.
    pub stored_chunks: u64,
    /// See [`TierCounters::stored_chunks`].
    pub stored_bytes: u64,
    /// Chunks and bytes evicted to make room.
    pub evicted_chunks: u64,
    /// See [`TierCounters::evicted_chunks`].
    pub evicted_bytes: u64,
    /// Bytes removed, by [`RemovalReason`].
    pub removed_bytes: [u64; RemovalReason::COUNT],
    /// Damaged chunks.
    pub damaged: u64,
    /// Chunks that were listed but missing.
    pub lost: u64,
    /// Failed calls.
    pub failed: u64,
}

/// Health of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The tier works.
    Up,
    /// The tier is being scanned for the first time.
    Scanning,
    /// The tier is full or a write failed. It is read, and writes are retried later.
    ReadOnly,
    /// The tier returned several damaged chunks. It is read, but not written to until the next start.
    Suspect,
    /// The tier does not respond. It is tried again later.
    Unavailable,
}

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
    /// Bytes written today (UTC).
    pub written_today_bytes: u64,
    /// Counters since the start.
    pub counters: TierCounters,
}

/// Chunks that should have been written below RAM and were not, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedWrites {
    /// The write queue was full.
    pub queue_full: u64,
    /// The tier was full.
    pub no_room: u64,
    /// The daily write limit was reached.
    pub daily_cap: u64,
    /// A preceding chunk was not written.
    pub orphaned: u64,
    /// The tier failed.
    pub failed: u64,
}

/// Number of restores, by their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreCounts {
    /// All chunks were restored.
    pub complete: u64,
    /// A chunk could not be loaded.
    pub missed: u64,
    /// A chunk did not arrive in time.
    pub deadline: u64,
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
}

/// Reason why a chunk left a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// Evicted to make room.
    Evicted,
    /// Unused for longer than the TTL.
    Expired,
    /// Deleted by the user.
    Deleted,
    /// Replaced by rows of another arithmetic.
    Replaced,
    /// Damaged.
    Damaged,
    /// Listed but missing.
    Lost,
}

impl RemovalReason {
    /// Number of reasons.
    pub const COUNT: usize = 6;
}

/// An event in the tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A chunk of this many bytes was stored.
    Stored(TierKind, u64),
    /// A chunk of this many bytes left a tier.
    Removed(TierKind, u64, RemovalReason),
    /// The rows of this many tokens were restored.
    Restored(TierKind, u32),
    /// A restore ended.
    RestoreEnded(RestoreEnd),
    /// A tier's health changed.
    Health(TierKind, Health),
    /// An owner's chunks were deleted.
    OwnerForgotten(Owner),
    /// Everything was deleted.
    Cleared,
}

/// Counters, behind the lock.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) flows: [TierCounters; 3],
    pub(super) dropped: DroppedWrites,
    pub(super) restores: RestoreCounts,
    pub(super) rejected: u64,
    health: [Option<Health>; 3],
    listeners: Vec<SyncSender<Event>>,
}

impl Counts {
    pub(super) fn counters(&mut self, tier: TierKind) -> &mut TierCounters {
        &mut self.flows[tier as usize]
    }

    /// Sends an event to all listeners. A full queue misses it; a dropped listener is removed.
    pub(super) fn emit(&mut self, event: &Event) {
        self.listeners.retain(|listener| {
            let sent = listener.try_send(event.clone());
            !matches!(sent, Err(std::sync::mpsc::TrySendError::Disconnected(_)))
        });
    }

    pub(super) fn stored(&mut self, tier: TierKind, bytes: u64) {
        let counters = self.counters(tier);
        counters.stored_chunks += 1;
        counters.stored_bytes += bytes;
        self.emit(&Event::Stored(tier, bytes));
    }

    pub(super) fn removed(&mut self, tier: TierKind, bytes: u64, why: RemovalReason) {
        let counters = self.counters(tier);
        counters.removed_bytes[why as usize] += bytes;
        match why {
            RemovalReason::Evicted => {
                counters.evicted_chunks += 1;
                counters.evicted_bytes += bytes;
            }
            RemovalReason::Damaged => counters.damaged += 1,
            RemovalReason::Lost => counters.lost += 1,
            RemovalReason::Expired | RemovalReason::Deleted | RemovalReason::Replaced => {}
        }
        self.emit(&Event::Removed(tier, bytes, why));
    }

    pub(super) fn restored(&mut self, tier: TierKind, tokens: usize, bytes: u64) {
        let counters = self.counters(tier);
        counters.hit_tokens += tokens as u64;
        counters.restored_chunks += 1;
        counters.restored_bytes += bytes;
        self.emit(&Event::Restored(tier, tokens as u32));
    }

    pub(super) fn read(&mut self, tier: TierKind, bytes: u64, took: Duration) {
        let rate = bytes as f64 / took.as_secs_f64().max(1e-6);
        let counters = self.counters(tier);
        counters.read_bytes_per_s =
            Some(counters.read_bytes_per_s.map_or(rate, |before| before + RATE_SMOOTHING * (rate - before)));
    }

    pub(super) fn restore_ended(&mut self, end: &RestoreEnd) {
        match end {
            RestoreEnd::Complete => self.restores.complete += 1,
            RestoreEnd::Missed(_) => self.restores.missed += 1,
            RestoreEnd::Deadline | RestoreEnd::NoResponse => self.restores.deadline += 1,
            RestoreEnd::Closed => {}
        }
        self.emit(&Event::RestoreEnded(end.clone()));
    }
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
        let (now, today) = (self.inner.clock.now(), self.inner.clock.unix_s() / (24 * 3600));
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
                written_today_bytes: lower_state
                    .map_or(0, |lower_state| if lower_state.written.0 == today { lower_state.written.1 } else { 0 }),
                counters: state.counts.flows[tier as usize],
            }
        });
        Status {
            tiers: tiers.collect(),
            dropped: state.counts.dropped,
            restores: state.counts.restores,
            rejected: state.counts.rejected,
        }
    }

    /// Subscribes to events. A slow listener misses events and should read [`Tiers::status`].
    pub fn events(&self) -> Receiver<Event> {
        let (sender, receiver) = sync_channel(EVENT_QUEUE_LENGTH);
        self.inner.lock().counts.listeners.push(sender);
        receiver
    }
}
