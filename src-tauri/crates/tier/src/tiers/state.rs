//! Shared state of the tiers, behind one lock: catalog, write queues, running restores.
//!
//! Methods only compute. I/O and freeing of memory are left to the threads, without the lock.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::counters::Counts;
use super::lower::{LowerTierState, OVERHEAD_BYTES, Removal};
use super::removed_chunks::{RemovalReason, RemovedChunks};
use super::restore_job::RestoreJob;
use super::{Config, StoreError, StoreOutcome, StoreReason, StoreRequest};
use crate::catalog::{Catalog, Entry, LOWER_TIERS};
use crate::chunk::{Chunk, ChunkId, Group};
use crate::cost::{CostModel, ReadRates};
use crate::identity::Fingerprint;
use crate::index::IndexRow;
use crate::policy::{LONG_RECOMPUTE, RETURN_PAUSE, WriteClaim};
use crate::tier::TierKind;

/// A tier above this share of its budget, in percent, is trimmed...
const HIGH_PERCENT: u64 = 95;
/// ... down to this share.
const LOW_PERCENT: u64 = 85;
/// How long a tier that failed is not used.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Consecutive failures after which a tier is not used.
const MAX_FAILURES: u32 = 3;

/// Size above which a tier is trimmed.
pub(super) fn high_mark(budget: u64) -> u64 {
    budget / 100 * HIGH_PERCENT + budget % 100 * HIGH_PERCENT / 100
}

/// Size to which a tier is trimmed.
pub(super) fn low_mark(budget: u64) -> u64 {
    budget / 100 * LOW_PERCENT + budget % 100 * LOW_PERCENT / 100
}

/// Phase of the shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShutdownPhase {
    /// Queued chunks are still written.
    Flush,
    /// All threads end.
    Now,
}

/// State of the tiers behind their lock: catalog, write queues and running restores.
pub(super) struct State {
    pub(super) catalog: Catalog,
    /// Bytes of RAM that are being freed.
    pub(super) ram_freeing: u64,
    /// RAM exceeded the high mark, and is trimmed to the low mark.
    pub(super) trimming: bool,
    lower_tiers: [LowerTierState; 2],
    /// Rows to free without the lock, with the bytes that count until then.
    pub(super) to_free: Vec<(Chunk, u64)>,
    pub(super) counts: Counts,
    pub(super) removed_chunks: RemovedChunks,
    /// Measured read costs.
    pub(super) rates: ReadRates,
    /// Measured compute costs, by model.
    pub(super) costs: HashMap<Fingerprint, CostModel>,
    /// Chunks whose index rows must be written.
    pub(super) dirty: HashSet<ChunkId>,
    /// Index rows of chunks that no scan has found yet.
    pub(super) unscanned_rows: HashMap<ChunkId, IndexRow>,
    pub(super) jobs: BTreeMap<u64, RestoreJob>,
    pub(super) next_job: u64,
    pub(super) closing: Option<ShutdownPhase>,
    pub(super) threads: usize,
}

impl State {
    pub(super) fn new(config: &Config, unscanned_rows: HashMap<ChunkId, IndexRow>) -> Self {
        let budget = |tier| config.lower(tier).map_or(0, |lower| lower.budget_bytes);
        Self {
            catalog: Catalog::new(
                [config.ram_bytes, budget(TierKind::Ssd), budget(TierKind::Remote)],
                Arc::clone(&config.eviction_policy),
            ),
            ram_freeing: 0,
            trimming: false,
            lower_tiers: LOWER_TIERS.map(|tier| LowerTierState::new(config.lower(tier).is_some())),
            to_free: Vec::new(),
            counts: Counts::default(),
            removed_chunks: RemovedChunks::default(),
            rates: ReadRates::default(),
            costs: HashMap::new(),
            dirty: HashSet::new(),
            unscanned_rows,
            jobs: BTreeMap::new(),
            next_job: 0,
            closing: None,
            threads: 0,
        }
    }

    /// Returns the state of a tier below RAM.
    pub(super) fn lower(&self, tier: TierKind) -> &LowerTierState {
        &self.lower_tiers[usize::from(tier == TierKind::Remote)]
    }

    pub(super) fn lower_mut(&mut self, tier: TierKind) -> &mut LowerTierState {
        &mut self.lower_tiers[usize::from(tier == TierKind::Remote)]
    }

    /// Returns whether a tier must not be used now.
    pub(super) fn is_unavailable(&self, tier: TierKind, now: Duration) -> bool {
        tier != TierKind::Ram && self.lower(tier).unavailable_until.is_some_and(|then| now < then)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.lower_tiers.iter().filter(|lower_state| lower_state.is_configured).all(|lower_state| {
            let idle = lower_state.queue.len() == 0 && lower_state.saving.is_none() && !lower_state.is_removing();
            lower_state.scanned_at.is_some() && idle
        })
    }

    /// Returns the bytes in RAM, including those being freed.
    pub(super) fn ram_used(&self) -> u64 {
        self.catalog.tier(TierKind::Ram).bytes() + self.ram_freeing
    }

    /// Returns the maximum size of RAM. With a budget of 0 it holds the write queue, if there is a lower tier.
    pub(super) fn ram_limit(&self, config: &Config) -> u64 {
        match (self.catalog.tier(TierKind::Ram).budget(), self.first_lower_tier()) {
            (0, Some(_)) => config.queue_bytes,
            (budget, _) => budget,
        }
    }

    pub(super) fn ram_fits(&self, config: &Config, bytes: u64) -> bool {
        self.ram_used() + bytes <= self.ram_limit(config)
    }

    /// Stores a chunk in RAM.
    pub(super) fn store(
        &mut self,
        config: &Config,
        request: StoreRequest,
        now: Duration,
        unix_s: u64,
    ) -> Result<StoreOutcome, StoreError> {
        let StoreRequest { chunk, reason, owner, recompute } = request;
        let (id, head) = (chunk.head.id, chunk.head.clone());
        if self.closing.is_some() {
            return Err(StoreError::Closed);
        }
        let entry = self.catalog.get(&id);
        let serves_as_well = |tier| entry.is_some_and(|entry| entry.serves(tier, Some(&head.class), head.flags.lossy));
        let present = self.catalog.tiers_of(&id).any(serves_as_well);
        let is_outdated = entry.is_some_and(|entry| entry.suspect || entry.class != head.class);
        if !present {
            let bytes = head.payload_bytes();
            if bytes > self.ram_limit(config) {
                return Err(StoreError::TooLarge);
            }
            if !self.ram_fits(config, bytes) {
                self.counts.rejected += 1;
                return Err(StoreError::Full);
            }
            // Rows of another arithmetic are outdated. Rounded rows may stay in a lower tier.
            if is_outdated {
                self.forget(&id, RemovalReason::Replaced);
            }
            self.drop_ram(&id, RemovalReason::Replaced);
            self.catalog.insert_ram(chunk);
            self.counts.stored(TierKind::Ram, bytes);
        }
        let before = self.catalog.get(&ChunkId { hash: head.parent, ..id }).map(|entry| entry.prefix_recompute);
        if let Some(entry) = self.catalog.get_mut(&id)
            && !recompute.is_zero()
        {
            entry.recompute = recompute;
            entry.prefix_recompute = recompute + before.unwrap_or_default();
        }
        if reason == StoreReason::Reused
            && let Some(entry) = self.catalog.get_mut(&id)
        {
            // The prefix was used again before RAM had the chunk.
            entry.hits = entry.hits.max(1);
        }
        self.catalog.touch(&id, now, unix_s);
        self.dirty.insert(id);
        if let Some(owner) = owner {
            self.add_owner(&id, &owner);
        }
        let write_now = match reason {
            StoreReason::Reused | StoreReason::Idle => self.may_write_early(config, &id, unix_s),
            StoreReason::Evicted | StoreReason::Unload => {
                self.catalog.tier(TierKind::Ram).budget() == 0 && self.should_write(&id, TierKind::Ssd)
            }
        };
        if write_now {
            self.enqueue_lower(config, &id, now);
        }
        Ok(if present { StoreOutcome::AlreadyStored } else { StoreOutcome::Stored })
    }

    /// Adds an owner to a chunk, to all chunks before it, and to the window chunks beside them.
    pub(super) fn add_owner(&mut self, id: &ChunkId, owner: &crate::Owner) {
        let mut next = *id;
        while let Some(entry) = self.catalog.get_mut(&next)
            && owner.add_to(&mut entry.owners)
        {
            let parent = entry.parent_id(&next);
            self.dirty.insert(next);
            let window = next.in_group(Group::Window);
            if self.catalog.get_mut(&window).is_some_and(|entry| owner.add_to(&mut entry.owners)) {
                self.dirty.insert(window);
            }
            next = parent;
        }
    }

    /// Records a use. A reused chunk may be written below RAM.
    pub(super) fn record_use(&mut self, config: &Config, id: &ChunkId, now: Duration, unix_s: u64, hit: bool) {
        if hit {
            self.catalog.count_hit(id, now);
        }
        self.catalog.touch(id, now, unix_s);
        self.dirty.insert(*id);
        if hit && self.may_write_early(config, id, unix_s) {
            self.enqueue_lower(config, id, now);
        }
    }

    /// Returns whether a chunk may be written before RAM needs its space.
    fn may_write_early(&self, config: &Config, id: &ChunkId, unix_s: u64) -> bool {
        config.early_write_bytes.is_none() || self.must_survive_crash(config, id, unix_s)
    }

    /// Returns whether a chunk must be below RAM soon, because its loss in a crash would cost more than the write, and
    /// the daily allowance suffices.
    fn must_survive_crash(&self, config: &Config, id: &ChunkId, unix_s: u64) -> bool {
        let Some((tier, entry)) = self.first_lower_tier().zip(self.catalog.get(id)) else { return false };
        let claim = |entry: &Entry| WriteClaim::of(&self.catalog.stats(entry), entry.prefix_recompute);
        let before = || self.catalog.get(&entry.parent_id(id)).map(claim);
        let claim = claim(entry).or_continues(before);
        let allowance = config.early_write_bytes.map_or(u64::MAX, |bytes| claim.share_of(bytes));
        let written = self.lower(tier).written_on_day_of(unix_s) + self.lower(tier).queue.bytes();
        self.should_write(id, tier) || written < allowance
    }

    /// Queues the chunks of RAM that must be below RAM soon, and are neither there nor queued.
    pub(super) fn enqueue_due(&mut self, config: &Config, now: Duration, unix_s: u64) {
        let Some(tier) = self.first_lower_tier().filter(|&tier| self.lower(tier).is_writable(now)) else { return };
        let is_missing = |id: &ChunkId| {
            let is_below = LOWER_TIERS.iter().any(|&tier| self.catalog.tier(tier).contains(id));
            !is_below && !self.lower(tier).is_due(id)
        };
        let mut due: Vec<_> = (self.catalog.tier(TierKind::Ram).ids())
            .filter(|id| is_missing(id) && self.must_survive_crash(config, id, unix_s))
            .filter_map(|id| Some((self.catalog.get(&id)?.first_position, id)))
            .collect();
        due.sort_unstable();
        for (_, id) in due {
            // More would displace queued chunks; the next call continues.
            if self.lower(tier).queue.bytes() > config.queue_bytes / 2 {
                break;
            }
            self.enqueue(config, tier, &id, now);
        }
    }

    /// Returns whether a chunk was used recently, so that its conversation may continue.
    pub(super) fn is_recently_used(&self, id: &ChunkId, now: Duration) -> bool {
        self.catalog.get(id).is_some_and(|entry| now < entry.last_use_at.saturating_add(RETURN_PAUSE))
    }

    pub(super) fn should_write(&self, id: &ChunkId, tier: TierKind) -> bool {
        self.catalog.get(id).is_some_and(|entry| self.catalog.worth().should_write(&self.catalog.stats(entry), tier))
    }

    /// Returns the tier that RAM writes to.
    pub(super) fn first_lower_tier(&self) -> Option<TierKind> {
        LOWER_TIERS.into_iter().find(|&tier| self.lower(tier).is_configured)
    }

    /// Queues a chunk of RAM, and all chunks before it, for the next lower tier. Returns whether it is stored there or
    /// queued.
    pub(super) fn enqueue_lower(&mut self, config: &Config, id: &ChunkId, now: Duration) -> bool {
        self.first_lower_tier().is_some_and(|tier| self.enqueue(config, tier, id, now))
    }

    /// Queues a chunk, and all chunks before it, for a tier. Returns whether it is stored there or queued.
    pub(super) fn enqueue(&mut self, config: &Config, tier: TierKind, id: &ChunkId, now: Duration) -> bool {
        let Some(entry) = self.catalog.get(id) else { return false };
        let long = entry.first_position + u64::from(entry.tokens) >= config.min_tokens
            || entry.prefix_recompute >= LONG_RECOMPUTE;
        let expensive = !config.use_cost_model
            || entry.prefix_recompute.is_zero()
            || entry.prefix_recompute >= config.min_recompute;
        // A chunk that never fits would stay queued and occupy RAM.
        let fits = entry.payload_bytes.saturating_add(OVERHEAD_BYTES) <= self.catalog.tier(tier).budget();
        if !(long && expensive && fits && self.lower(tier).is_writable(now)) {
            return false;
        }
        let mut path = Vec::new();
        let mut next = *id;
        while !self.catalog.tier(tier).contains(&next) && !self.lower(tier).is_due(&next) {
            // A missing chunk would make all later chunks useless.
            let Some(entry) = self.catalog.get(&next) else { return false };
            if entry.ram.is_none() && (tier == TierKind::Ssd || !self.catalog.tier(TierKind::Ssd).contains(&next)) {
                return false;
            }
            path.push(next);
            if entry.first_position == 0 || next.group == Group::Window {
                break;
            }
            next = entry.parent_id(&next);
        }
        path.into_iter().rev().all(|id| self.push(config, tier, id, now))
    }

    /// Appends a chunk to a tier's write queue. If the queue is full, drops chunks of lower rank.
    fn push(&mut self, config: &Config, tier: TierKind, id: ChunkId, now: Duration) -> bool {
        let Some(entry) = self.catalog.get(&id) else { return false };
        let (parent, bytes, rank) =
            (entry.parent_id(&id), entry.payload_bytes, self.catalog.worth().rank(&self.catalog.stats(entry)));
        let unlimited = self.closing.is_some();
        let mut dropped = 0;
        let lower_state = self.lower_mut(tier);
        while !unlimited && lower_state.queue.bytes() + bytes > config.queue_bytes {
            let saving = lower_state.saving.map(|(id, _)| id);
            let colder = |other: &ChunkId| Some(*other) != saving && *other != parent;
            let Some(victim) = lower_state.queue.chunks.victims().find(colder) else {
                self.counts.dropped.queue_full += 1;
                return false;
            };
            lower_state.queue.remove(&victim);
            dropped += 1;
        }
        lower_state.queue.push(id, parent, bytes, rank, now);
        self.counts.dropped.queue_full += dropped;
        true
    }

    /// Removes a chunk from all tiers and restores. The writer threads remove the files.
    pub(super) fn forget(&mut self, id: &ChunkId, why: RemovalReason) {
        for tier in LOWER_TIERS {
            self.remove_lower(tier, id, why);
        }
        self.drop_ram(id, why);
        let rows = self.jobs.values_mut().flat_map(|job| job.forget(id));
        self.to_free.extend(rows.map(|chunk| (chunk, 0)));
    }

    /// Removes a chunk from RAM.
    pub(super) fn drop_ram(&mut self, id: &ChunkId, why: RemovalReason) {
        let Some(chunk) = self.catalog.drop_ram(id) else { return };
        let bytes = chunk.head.payload_bytes();
        self.ram_freeing += bytes;
        self.to_free.push((chunk, bytes));
        self.record_removal(TierKind::Ram, id, bytes, why);
    }

    /// Removes a chunk from a lower tier and its write queue.
    pub(super) fn remove_lower(&mut self, tier: TierKind, id: &ChunkId, why: RemovalReason) {
        let bytes = self.catalog.remove_from(tier, id);
        let lower_state = self.lower_mut(tier);
        lower_state.queue.remove(id);
        lower_state.remove_after_save |= lower_state.saving.is_some_and(|(saving, _)| saving == *id);
        if let Some(bytes) = bytes {
            lower_state.pending_removal_bytes += bytes;
            lower_state.removals.push_back(Removal { id: *id, bytes, not_before: Duration::ZERO });
            self.record_removal(tier, id, bytes, why);
        }
    }

    /// Records that a tier no longer has a chunk.
    pub(super) fn drop_missing(&mut self, tier: TierKind, id: &ChunkId, why: RemovalReason) {
        if let Some(bytes) = self.catalog.remove_from(tier, id) {
            self.record_removal(tier, id, bytes, why);
        }
    }

    fn record_removal(&mut self, tier: TierKind, id: &ChunkId, bytes: u64, why: RemovalReason) {
        self.counts.removed(tier, bytes, why);
        if self.catalog.get(id).is_none() {
            self.removed_chunks.add(*id, why);
            self.dirty.insert(*id);
        }
    }

    /// Counts a failed call. After repeated failures the tier is not used for a while.
    pub(super) fn record_failure(&mut self, tier: TierKind, now: Duration, why: &str) {
        let lower_state = self.lower_mut(tier);
        lower_state.failures += 1;
        lower_state.last_error = Some(why.to_owned());
        if lower_state.failures >= MAX_FAILURES {
            lower_state.unavailable_until = Some(now + RETRY_INTERVAL);
        }
        self.counts.counters(tier).failed += 1;
        self.update_health(now);
    }

    /// Resets the failure count after a successful call.
    pub(super) fn record_success(&mut self, tier: TierKind) {
        let lower_state = self.lower_mut(tier);
        lower_state.failures = 0;
        lower_state.unavailable_until = None;
    }

    /// Rejects new chunks, and queues all chunks that only RAM has, best first.
    pub(super) fn begin_close(&mut self, config: &Config, now: Duration) {
        self.closing = Some(ShutdownPhase::Flush);
        self.jobs.values().for_each(RestoreJob::wake);
        let Some(tier) = self.first_lower_tier() else { return };
        let worth = self.catalog.worth();
        let mut only_here: Vec<_> = (self.catalog.entries())
            .filter(|(id, entry)| {
                entry.ram.is_some() && LOWER_TIERS.iter().all(|&lower| !self.catalog.tier(lower).contains(id))
            })
            .map(|(id, entry)| {
                let stats = self.catalog.stats(entry);
                ((!entry.pinned, !worth.should_write(&stats, tier), entry.hits == 0, entry.first_position), *id)
            })
            .collect();
        only_here.sort_unstable();
        for (_, id) in only_here {
            self.enqueue(config, tier, &id, now);
        }
    }
}
