//! The thread that keeps RAM within its budget, and forgets what nobody used for long.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Inner;
use super::state::{State, high_mark, low_mark};
use crate::catalog::LOWER;
use crate::chunk::{Chunk, ChunkId};
use crate::tier::Place;

/// Chunks that are freed between two looks at what is wanted.
const BATCH: usize = 16;
/// How often chunks are looked over that have not been used for long.
const SWEEP: Duration = Duration::from_secs(600);

/// Keeps order until the tiers are closed.
pub(super) fn run(inner: &Inner) {
    let mut swept_at = None;
    let mut state = inner.lock();
    loop {
        if state.closing.is_some() {
            return;
        }
        let now = inner.clock.now();
        let mut freed = state.trim_ram(inner, now);
        if swept_at.is_none_or(|then| now >= then + SWEEP) {
            swept_at = Some(now);
            freed.extend(state.expire(inner));
        }
        if freed.is_empty() {
            state = inner.wait(state);
            continue;
        }
        drop(state);
        let bytes: u64 = freed.iter().map(|chunk| chunk.head.payload_bytes()).sum();
        drop(freed);
        state = inner.lock();
        state.ram_freeing -= bytes;
        inner.work.notify_all();
    }
}

impl State {
    /// Takes some chunks out of RAM, where it is too full, to be freed without the lock. Those that are worth it are written down
    /// first and leave when that is done.
    fn trim_ram(&mut self, inner: &Inner, now: Duration) -> Vec<Chunk> {
        let config = &inner.config;
        let mut freed = Vec::new();
        let wanted = inner.ram_wanted.swap(false, Ordering::Relaxed);
        let budget = config.ram_bytes;
        if self.catalog.shelf(Place::Ram).bytes() <= high_mark(budget) && !wanted {
            return freed;
        }
        let below = self.below_ram();
        let mut passed = std::collections::HashSet::new();
        while freed.len() < BATCH && self.catalog.shelf(Place::Ram).bytes() > low_mark(budget) {
            let may_go = |id: &ChunkId| {
                let leased = self.catalog.get(id).is_some_and(|entry| entry.leases > 0);
                !leased && !passed.contains(id) && !LOWER.iter().any(|&place| self.hand(place).is_due(id))
            };
            let Some(id) = self.catalog.shelf(Place::Ram).victims().find(may_go) else { break };
            let copied = LOWER.iter().any(|&place| self.catalog.shelf(place).holds(&id));
            if !copied
                && let Some(place) = below
                && self.deserves(&id, place)
                && self.enqueue(config, place, &id, now)
            {
                passed.insert(id);
                continue;
            }
            if let Some(chunk) = self.catalog.drop_ram(&id) {
                self.ram_freeing += chunk.head.payload_bytes();
                freed.push(chunk);
            }
        }
        freed
    }

    /// Forgets what nobody used for longer than chunks are kept.
    fn expire(&mut self, inner: &Inner) -> Vec<Chunk> {
        let Some(ttl) = inner.config.ttl else { return Vec::new() };
        let oldest = inner.clock.unix_s().saturating_sub(ttl.as_secs());
        let old = self
            .catalog
            .entries()
            .filter(|(_, entry)| entry.last_use_unix_s < oldest && entry.leases == 0 && !entry.pinned);
        let old: Vec<ChunkId> = old.map(|(id, _)| *id).collect();
        let freed: Vec<Chunk> = old.iter().filter_map(|id| self.forget(id)).collect();
        self.ram_freeing += freed.iter().map(|chunk| chunk.head.payload_bytes()).sum::<u64>();
        freed
    }
}
