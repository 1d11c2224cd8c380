//! The thread that keeps RAM within its budget, and forgets what nobody used for long.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Inner;
use super::remember::BATCH_SPAN;
use super::state::{State, high_mark, low_mark};
use super::status::Gone;
use crate::catalog::LOWER;
use crate::chunk::ChunkId;
use crate::tier::Place;

/// Chunks that are freed between two looks at what is wanted.
const BATCH: usize = 16;
/// How often chunks are looked over that have not been used for long.
const SWEEP: Duration = Duration::from_secs(600);

/// Keeps order until the tiers are closed.
pub(super) fn run(inner: &Inner) {
    cairn_disk::stand_back();
    let (mut swept_at, mut written_at) = (None, inner.clock.now());
    let mut state = inner.lock();
    loop {
        if state.closing.is_some() {
            return;
        }
        let now = inner.clock.now();
        state.watch_health(now);
        state.trim_ram(inner, now);
        if swept_at.is_none_or(|then| now >= then + SWEEP) {
            swept_at = Some(now);
            state.expire(inner);
        }
        if now >= written_at + BATCH_SPAN {
            written_at = now;
            drop(state);
            inner.write_index(false);
            state = inner.lock();
        }
        if state.trash.is_empty() {
            state = inner.wait(state);
            continue;
        }
        let trash = std::mem::take(&mut state.trash);
        drop(state);
        let bytes: u64 = trash.iter().map(|(_, bytes)| bytes).sum();
        drop(trash);
        state = inner.lock();
        state.ram_freeing -= bytes;
        inner.work.notify_all();
    }
}

impl State {
    /// Takes some chunks out of RAM, where it is too full. Those that are worth it are written down first and leave when that is
    /// done. Without a budget, what was written leaves at once.
    fn trim_ram(&mut self, inner: &Inner, now: Duration) {
        let config = &inner.config;
        let (limit, tight) = (self.ram_limit(config), self.catalog.shelf(Place::Ram).budget() == 0);
        let used = self.catalog.shelf(Place::Ram).bytes();
        self.trimming |= inner.ram_wanted.swap(false, Ordering::Relaxed) || used > high_mark(limit);
        let below = self.below_ram();
        let mut passed = HashSet::new();
        while self.trash.len() < BATCH {
            self.trimming &= self.catalog.shelf(Place::Ram).bytes() > low_mark(limit);
            if !self.trimming && !tight {
                return;
            }
            let copied = |id: &ChunkId| LOWER.iter().any(|&place| self.catalog.shelf(place).holds(id));
            let may_go = |id: &ChunkId| {
                let leased = self.catalog.get(id).is_some_and(|entry| entry.leases > 0);
                let due = LOWER.iter().any(|&place| self.hand(place).is_due(id));
                !leased && !due && !passed.contains(id) && (self.trimming || copied(id))
            };
            let Some(id) = self.catalog.shelf(Place::Ram).victims().find(may_go) else {
                // What is left is in use, or leaves when it has been written.
                self.trimming = false;
                return;
            };
            let lost = |id: &ChunkId| !copied(id) && !below.is_some_and(|place| self.deserves(id, place));
            // A conversation longer than RAM would lose its end after each turn, and what is on the disk too can go instead.
            let spare = || {
                let shelf = self.catalog.shelf(Place::Ram);
                let free = |id: &ChunkId| self.catalog.get(id).is_some_and(|entry| entry.leases == 0);
                shelf.oldest(|id| copied(id) && free(id))
            };
            let id = Some(id).filter(|id| !(lost(id) && self.is_under_way(id, now))).or_else(spare).unwrap_or(id);
            if !copied(&id)
                && let Some(place) = below
                && self.deserves(&id, place)
                && self.enqueue(config, place, &id, now)
            {
                passed.insert(id);
                continue;
            }
            self.drop_ram(&id, Gone::Evicted);
        }
    }

    /// Forgets what nobody used for longer than chunks are kept.
    fn expire(&mut self, inner: &Inner) {
        let Some(ttl) = inner.config.ttl else { return };
        let oldest = inner.clock.unix_s().saturating_sub(ttl.as_secs());
        let old = self
            .catalog
            .entries()
            .filter(|(_, entry)| entry.last_use_unix_s < oldest && entry.leases == 0 && !entry.pinned);
        let old: Vec<ChunkId> = old.map(|(id, _)| *id).collect();
        old.iter().for_each(|id| self.forget(id, Gone::Expired));
    }
}
