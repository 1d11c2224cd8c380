//! The thread that keeps RAM within its budget and deletes expired chunks.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::persist::INDEX_WRITE_INTERVAL;
use super::removed_chunks::RemovalReason;
use super::state::{State, high_mark, low_mark};
use super::{IDLE_TICK, Inner};
use crate::catalog::LOWER_TIERS;
use crate::chunk::ChunkId;
use crate::tier::TierKind;

/// Maximum number of chunks freed per iteration.
const BATCH: usize = 16;
/// How often expired chunks are searched.
const SWEEP_INTERVAL: Duration = Duration::from_secs(600);

/// Body of the RAM thread: evicts and expires chunks, frees memory and writes the index until shutdown.
pub(super) fn run(inner: &Inner) {
    cairn_disk::set_low_thread_priority();
    let (mut swept_at, mut written_at) = (None, inner.clock.now());
    let mut state = inner.lock();
    loop {
        if state.closing.is_some() {
            return;
        }
        let now = inner.clock.now();
        state.update_health(now);
        state.trim_ram(inner, now);
        if swept_at.is_none_or(|then| now >= then + SWEEP_INTERVAL) {
            swept_at = Some(now);
            state.expire(inner);
        }
        if now >= written_at + INDEX_WRITE_INTERVAL {
            written_at = now;
            drop(state);
            inner.write_index(false);
            state = inner.lock();
        }
        if state.to_free.is_empty() {
            inner.work.wait_for(&mut state, IDLE_TICK);
            continue;
        }
        let to_free = std::mem::take(&mut state.to_free);
        drop(state);
        let bytes: u64 = to_free.iter().map(|(_, bytes)| bytes).sum();
        drop(to_free);
        state = inner.lock();
        state.ram_freeing -= bytes;
        inner.work.notify_all();
    }
}

impl State {
    /// Evicts chunks from RAM if it is too full. Chunks that should be written below are queued first and leave when
    /// they were written. With a budget of 0, written chunks leave at once.
    fn trim_ram(&mut self, inner: &Inner, now: Duration) {
        let config = &inner.config;
        let (limit, has_no_budget) = (self.ram_limit(config), self.catalog.tier(TierKind::Ram).budget() == 0);
        let used = self.catalog.tier(TierKind::Ram).bytes();
        self.trimming |= inner.ram_trim_requested.swap(false, Ordering::Relaxed) || used > high_mark(limit);
        let below = self.first_lower_tier();
        let mut queued = HashSet::new();
        while self.to_free.len() < BATCH {
            self.trimming &= self.catalog.tier(TierKind::Ram).bytes() > low_mark(limit);
            if !self.trimming && !has_no_budget {
                return;
            }
            let copied = |id: &ChunkId| LOWER_TIERS.iter().any(|&tier| self.catalog.tier(tier).contains(id));
            let can_leave = |id: &ChunkId| {
                let leased = self.catalog.get(id).is_some_and(|entry| entry.leases > 0);
                let due = LOWER_TIERS.iter().any(|&tier| self.lower(tier).is_due(id));
                !leased && !due && !queued.contains(id) && (self.trimming || copied(id))
            };
            let Some(id) = self.catalog.tier(TierKind::Ram).victims().find(can_leave) else {
                // The remaining chunks are in use, or leave when they were written.
                self.trimming = false;
                return;
            };
            let would_be_lost = |id: &ChunkId| !copied(id) && !below.is_some_and(|tier| self.should_write(id, tier));
            // A conversation longer than RAM would lose its end after each turn. Chunks that a lower tier has too can
            // go instead.
            let copied_victim = || {
                let chunks = self.catalog.tier(TierKind::Ram);
                let free = |id: &ChunkId| self.catalog.get(id).is_some_and(|entry| entry.leases == 0);
                chunks.oldest(|id| copied(id) && free(id))
            };
            let id = Some(id)
                .filter(|id| !(would_be_lost(id) && self.is_recently_used(id, now)))
                .or_else(copied_victim)
                .unwrap_or(id);
            if !copied(&id)
                && let Some(tier) = below
                && self.should_write(&id, tier)
                && self.enqueue(config, tier, &id, now)
            {
                queued.insert(id);
                continue;
            }
            self.drop_ram(&id, RemovalReason::Evicted);
        }
    }

    /// Deletes the chunks that were unused for longer than the TTL.
    fn expire(&mut self, inner: &Inner) {
        let Some(ttl) = inner.config.ttl else { return };
        let oldest = inner.clock.unix_s().saturating_sub(ttl.as_secs());
        let old = self
            .catalog
            .entries()
            .filter(|(_, entry)| entry.last_use_unix_s < oldest && entry.leases == 0 && !entry.pinned);
        let old: Vec<ChunkId> = old.map(|(id, _)| *id).collect();
        old.iter().for_each(|id| self.forget(id, RemovalReason::Expired));
    }
}
