//! Counters of the tiers since the start, and the events that listeners receive.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use super::removed_chunks::RemovalReason;
use super::restore_job::RestoreEnd;
use crate::owner::Owner;
use crate::tier::TierKind;

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
    pub(super) health: [Option<Health>; 3],
    pub(super) listeners: Vec<SyncSender<Event>>,
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
