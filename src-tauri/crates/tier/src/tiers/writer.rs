//! The writer thread of a tier below RAM. Only this thread scans, writes and removes chunks there, one operation at a
//! time, so that the catalog stays consistent with the tier.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::background::{BackgroundWorker, Priority};
use super::lower::{OVERHEAD_BYTES, Removal, WriteState};
use super::pace::PacedSave;
use super::removed_chunks::RemovalReason;
use super::save::{ChunkIdentity, ChunkSource, SaveAttempt, most_bytes, panicked, run_save, save};
use super::state::{RETRY_INTERVAL, ShutdownPhase, State, high_mark, low_mark};
use super::{BUSY_TICK, Config, IDLE_TICK, Inner, LowerTier, catch_panic};
use crate::chunk::{ChunkId, Group};
use crate::index::IndexRow;
use crate::tier::{StoredChunk, TierError, TierKind};

/// Number of scanned chunks that are added per lock acquisition.
const BATCH: usize = 256;
/// This many damaged chunks within [`DAMAGE_SPAN`] make a tier read-only.
const DAMAGE_LIMIT: usize = 3;
const DAMAGE_SPAN: Duration = Duration::from_secs(600);
/// While answers are generated, a pause of this many times the write's duration follows each write to the remote tier,
/// because writes use memory bandwidth and kernel threads. Saves to the SSD pause in between ([`PacedSave`]).
const WRITE_PAUSE_FACTOR: u32 = 4;
/// A chunk that has been queued for the SSD for this long is written with normal priority, since a busy machine may
/// never serve a lower one. With [`FAST_AGE`](super::pace::FAST_AGE) it leaves enough of the 10 s within which a chunk
/// must survive a crash.
const OVERDUE_AGE: Duration = Duration::from_secs(3);
/// Interval of searches for chunks in RAM that must be below RAM and are not queued. Their owner or pin may be new, or an
/// earlier write may have failed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(2);
/// A write that takes longer may be stuck.
const STUCK_SAVE: Duration = Duration::from_secs(10);

/// The next operation of the writer thread.
enum WriterTask {
    Scan,
    Remove(Removal),
    /// Save a chunk of at most this many bytes that was queued at this time.
    Save {
        id: ChunkId,
        source: ChunkSource,
        bytes: u64,
        queued_at: Duration,
    },
}

/// Runs until the tiers are closed.
pub(super) fn run(inner: &Inner, tier: TierKind) {
    let Some(lower) = inner.config.lower(tier) else { return };
    std::thread::scope(|scope| serve(inner, lower, tier, &BackgroundWorker::start(scope, &format!("tier-{tier}"))));
}

fn serve<'env>(inner: &'env Inner, lower: &'env LowerTier, tier: TierKind, background: &BackgroundWorker<'env>) {
    let mut swept_at = Duration::ZERO;
    let mut state = inner.lock();
    loop {
        if state.closing == Some(ShutdownPhase::Now) {
            return;
        }
        let (now, unix_s) = (inner.clock.now(), inner.clock.unix_s());
        if state.closing.is_none() && state.first_lower_tier() == Some(tier) && now >= swept_at + SWEEP_INTERVAL {
            swept_at = now;
            state.enqueue_due(&inner.config, now, unix_s);
        }
        let paused = state.closing.is_none() && inner.paused.load(Ordering::Relaxed);
        let is_answering = inner.active_generations.load(Ordering::Relaxed) > 0;
        let priority = state.write_priority(&inner.config, tier, now, is_answering);
        let is_write_pause = is_answering && state.is_write_pause(tier, now);
        let Some(task) = state.next_task(&inner.config, tier, now, unix_s, paused || is_write_pause) else {
            inner.done.notify_all();
            if state.closing == Some(ShutdownPhase::Flush) {
                return;
            }
            let has_work = state.lower(tier).has_work();
            inner.work.wait_for(&mut state, if has_work { BUSY_TICK } else { IDLE_TICK });
            continue;
        };
        let budget = state.catalog.tier(tier).budget();
        drop(state);
        state = match task {
            WriterTask::Scan => scan(inner, lower, tier),
            WriterTask::Remove(removal) => {
                let id = removal.id;
                let remove = move || catch_panic(|| lower.tier.remove(&id)).unwrap_or_else(panicked);
                let removed = background.begin(priority, remove).wait();
                let mut state = inner.lock();
                state.finish_removal(tier, removal, removed, inner.clock.now());
                state
            }
            WriterTask::Save { id, source, bytes, queued_at } => {
                inner.write_owners(&id);
                inner.reserve_daily_write(tier);
                let overdue_at = (tier == TierKind::Ssd).then(|| queued_at.saturating_add(OVERDUE_AGE));
                let attempt = |is_abandoned: &Arc<SaveAttempt>| {
                    let (source, attempt) = (source.clone(), Arc::clone(is_abandoned));
                    move || {
                        let save_time = || inner.save_time(tier, queued_at, bytes);
                        let control = PacedSave::new(&attempt, bytes, &save_time);
                        catch_panic(|| save(inner, lower, &id, source, budget, &control)).unwrap_or_else(panicked)
                    }
                };
                let saved = run_save(inner, background, priority, overdue_at, attempt);
                let (then, unix_s) = (inner.clock.now(), inner.clock.unix_s());
                let mut state = inner.lock();
                state.lower_mut(tier).last_write = (then, then.saturating_sub(now));
                match saved.transpose() {
                    Some(saved) => state.finish_save(tier, &id, saved, then, unix_s),
                    None => state.finish_no_room(tier),
                }
                state
            }
        };
        inner.done.notify_all();
        inner.work.notify_all();
    }
}

/// Scans a tier and updates the catalog.
fn scan<'a>(inner: &'a Inner, lower: &LowerTier, tier: TierKind) -> parking_lot::MutexGuard<'a, State> {
    let mut found = Vec::new();
    let owns = catch_panic(|| (lower.is_owner)()).unwrap_or(false);
    let scanned = catch_panic(|| lower.tier.scan(&mut |stored| found.push(stored))).unwrap_or_else(panicked);
    for batch in found.chunks(BATCH) {
        let mut state = inner.lock();
        for stored in batch {
            if !state.is_cataloged(tier, stored) {
                state.catalog.insert_lower(tier, stored);
                if state.lower(tier).purge_on_scan {
                    state.remove_lower(tier, &stored.id, RemovalReason::Deleted);
                } else {
                    state.apply_row(&stored.id);
                }
            }
        }
    }
    let mut state = inner.lock();
    match scanned {
        Ok(()) => {
            // Only this thread adds chunks here, so a chunk that was not found is gone.
            let seen: std::collections::HashSet<ChunkId> = found.iter().map(|stored| stored.id).collect();
            let missing: Vec<ChunkId> = state.catalog.tier(tier).ids().filter(|id| !seen.contains(id)).collect();
            missing.iter().for_each(|id| state.drop_missing(tier, id, RemovalReason::Lost));
            if !owns {
                state.lower_mut(tier).drop_removals(|id| !seen.contains(id));
            }
            if !state.lower(tier).is_scanned {
                // Apply pins again: the scan found them in arbitrary order.
                let budget = state.catalog.tier(tier).budget();
                state.catalog.set_budget(tier, budget);
            }
            let lower_state = state.lower_mut(tier);
            (lower_state.is_scanned, lower_state.purge_on_scan) = (true, false);
            state.drop_unscanned_rows();
            state.record_success(tier);
        }
        // A tier that cannot be scanned is unavailable.
        Err(error) => {
            let now = inner.clock.now();
            state.lower_mut(tier).unavailable_until = Some(now + RETRY_INTERVAL);
            state.record_failure(tier, now, &error.to_string());
        }
    }
    let lower_state = state.lower_mut(tier);
    lower_state.is_owner = owns;
    lower_state.scanned_at = Some(inner.clock.now());
    state
}

impl State {
    /// Returns whether the catalog has the scanned chunk, or its removal is pending.
    fn is_cataloged(&self, tier: TierKind, stored: &StoredChunk) -> bool {
        self.catalog.tier(tier).contains(&stored.id) || self.lower(tier).pending_removals().any(|id| id == stored.id)
    }

    /// Returns the priority of the next operation. It rises with the age of the oldest queued chunk.
    fn write_priority(&self, config: &Config, tier: TierKind, now: Duration, is_answering: bool) -> Priority {
        let is_urgent = self.is_queue_nearly_full(config, tier);
        if self.closing.is_some() || self.queue_age(tier, now) >= OVERDUE_AGE {
            Priority::Normal
        } else if is_answering && !is_urgent {
            Priority::Idle
        } else {
            Priority::Low
        }
    }

    /// Returns whether chunks may soon be dropped from the queue. Before that, writes may slow down generation.
    pub(super) fn is_queue_nearly_full(&self, config: &Config, tier: TierKind) -> bool {
        self.lower(tier).queue.bytes() > config.queue_bytes / 4 * 3
    }

    /// Returns how long the oldest chunk has been queued for the SSD. No chunk is urgent in the remote tier.
    fn queue_age(&self, tier: TierKind, now: Duration) -> Duration {
        let oldest = self.lower(tier).queue.first().filter(|_| tier == TierKind::Ssd);
        oldest.map_or(Duration::ZERO, |(_, queued_at)| now.saturating_sub(queued_at))
    }

    /// Returns whether the writer pauses after its last write to the remote tier, so that an answer is not slowed down.
    fn is_write_pause(&self, tier: TierKind, now: Duration) -> bool {
        let (end, duration) = self.lower(tier).last_write;
        tier == TierKind::Remote && self.closing.is_none() && now < end.saturating_add(WRITE_PAUSE_FACTOR * duration)
    }

    /// Selects the next operation. Removals come first, since they free space.
    fn next_task(
        &mut self,
        config: &Config,
        tier: TierKind,
        now: Duration,
        unix_s: u64,
        paused: bool,
    ) -> Option<WriterTask> {
        let lower = config.lower(tier)?;
        let rescan =
            self.lower(tier).scanned_at.is_none_or(|then| lower.rescan_interval.is_some_and(|span| now >= then + span));
        if rescan {
            return Some(WriterTask::Scan);
        }
        loop {
            let lower_state = self.lower_mut(tier);
            let due = lower_state.removals.iter().position(|removal| removal.not_before <= now);
            // A guest's deletions are carried out when this process becomes the owner.
            if let Some(next) = due.filter(|_| lower_state.is_owner) {
                let removal = lower_state.removals.remove(next)?;
                lower_state.removing = Some(removal.id);
                return Some(WriterTask::Remove(removal));
            }
            if self.lower(tier).is_owner && self.trim(config, tier, now).removed > 0 {
                continue;
            }
            if paused || !self.lower(tier).is_writable(now) {
                return None;
            }
            let (id, queued_at) = self.lower(tier).queue.first()?;
            let admission = self.admit(lower, tier, &id, unix_s);
            if let Admission::NoRoom(bytes) = admission {
                self.lower_mut(tier).requested_bytes = Some(bytes);
                if self.lower(tier).is_owner {
                    match self.trim(config, tier, now) {
                        TrimResult { removed: 1.., .. } => continue,
                        // Space is freed when the tier below has the evicted chunks.
                        TrimResult { copied_below: 1.., .. } => return None,
                        TrimResult { .. } => {}
                    }
                }
                self.counts.dropped.no_room += 1;
            }
            self.lower_mut(tier).queue.remove(&id);
            if let Admission::Save(source, bytes) = admission {
                let lower_state = self.lower_mut(tier);
                (lower_state.saving, lower_state.saving_since) = (Some((id, bytes)), now);
                return Some(WriterTask::Save { id, source, bytes, queued_at });
            }
        }
    }

    /// Decides whether a chunk may be written now.
    fn admit(&mut self, lower: &LowerTier, tier: TierKind, id: &ChunkId, unix_s: u64) -> Admission {
        let Some(entry) = self.catalog.get(id) else { return Admission::Rejected };
        let orphan = entry.first_position > 0
            && id.group == Group::Full
            && !self.catalog.tier(tier).contains(&entry.parent_id(id));
        if orphan {
            self.counts.dropped.orphaned += 1;
        }
        if orphan || self.catalog.tier(tier).contains(id) {
            return Admission::Rejected;
        }
        let (source, bytes) = match &entry.ram {
            Some(chunk) => (ChunkSource::Ram(chunk.clone()), most_bytes(chunk)),
            None => {
                let head = ChunkIdentity {
                    parent: entry.parent,
                    first_position: entry.first_position,
                    keys: entry.keys.clone(),
                };
                (ChunkSource::Above(Box::new(head)), entry.payload_bytes + OVERHEAD_BYTES)
            }
        };
        let written_bytes = self.lower_mut(tier).add_written(unix_s, 0);
        if lower.daily_write_bytes.is_some_and(|cap| written_bytes + bytes > cap) {
            self.counts.dropped.daily_cap += 1;
            return Admission::Rejected;
        }
        if self.used_bytes(tier) + bytes > self.catalog.tier(tier).budget() {
            return Admission::NoRoom(bytes);
        }
        Admission::Save(source, bytes)
    }

    /// Returns the size of a tier, including chunks that are being written or removed.
    pub(super) fn used_bytes(&self, tier: TierKind) -> u64 {
        let lower_state = self.lower(tier);
        self.catalog.tier(tier).bytes()
            + lower_state.pending_removal_bytes
            + lower_state.saving.map_or(0, |(_, bytes)| bytes)
    }

    /// Evicts chunks from a tier that is too full. Chunks that the tier below should get are copied there first.
    fn trim(&mut self, config: &Config, tier: TierKind, now: Duration) -> TrimResult {
        let budget = self.catalog.tier(tier).budget();
        let remaining = self.used_bytes(tier) - self.lower(tier).pending_removal_bytes;
        let requested = self.lower_mut(tier).requested_bytes.take();
        if remaining <= high_mark(budget) && requested.is_none() {
            return TrimResult::default();
        }
        let goal = low_mark(budget).min(budget.saturating_sub(requested.unwrap_or(0)));
        let below = (tier == TierKind::Ssd && self.accepts_writes(TierKind::Remote, now)).then_some(TierKind::Remote);
        let mut excess = remaining.saturating_sub(goal);
        let mut trimmed = TrimResult::default();
        let mut copying = std::collections::HashSet::new();
        while excess > 0 {
            let chunks = self.catalog.tier(tier);
            let can_leave = |id: &ChunkId| {
                let leased = self.catalog.get(id).is_some_and(|entry| entry.leases > 0);
                let ram = self.catalog.tier(TierKind::Ram);
                // Chunks in RAM that continue it would become unreachable.
                !leased && !copying.contains(id) && (ram.contains(id) || !ram.has_children(id))
            };
            let Some(id) = chunks.victims().find(can_leave) else { break };
            if let Some(below) = below
                && !self.catalog.tier(below).contains(&id)
                && self.should_write(&id, below)
                && self.enqueue(config, below, &id, now)
            {
                // It is evicted in a later round, after it was copied.
                copying.insert(id);
                trimmed.copied_below += 1;
                excess = excess.saturating_sub(self.catalog.get(&id).map_or(1, |entry| entry.payload_bytes));
                continue;
            }
            let pending_removal_bytes = self.lower(tier).pending_removal_bytes;
            self.remove_lower(tier, &id, RemovalReason::Evicted);
            excess = excess.saturating_sub(self.lower(tier).pending_removal_bytes - pending_removal_bytes);
            trimmed.removed += 1;
        }
        trimmed
    }

    /// Returns whether a tier currently accepts writes.
    fn accepts_writes(&self, tier: TierKind, now: Duration) -> bool {
        let lower_state = self.lower(tier);
        let stuck = lower_state.saving.is_some() && now >= lower_state.saving_since + STUCK_SAVE;
        lower_state.is_configured && self.closing.is_none() && !stuck && !self.is_unavailable(tier, now)
    }

    fn finish_removal(&mut self, tier: TierKind, removal: Removal, removed: Result<(), TierError>, now: Duration) {
        self.lower_mut(tier).removing = None;
        match removed {
            Ok(()) => {
                self.lower_mut(tier).pending_removal_bytes -= removal.bytes;
                self.dirty.insert(removal.id);
                self.record_success(tier);
            }
            Err(error) => {
                self.lower_mut(tier).removals.push_back(Removal { not_before: now + RETRY_INTERVAL, ..removal });
                self.record_failure(tier, now, &error.to_string());
            }
        }
    }

    fn finish_save(
        &mut self,
        tier: TierKind,
        id: &ChunkId,
        saved: Result<StoredChunk, TierError>,
        now: Duration,
        unix_s: u64,
    ) {
        let lower_state = self.lower_mut(tier);
        lower_state.saving = None;
        let to_delete = std::mem::take(&mut lower_state.remove_after_save);
        match saved {
            Ok(stored) => {
                lower_state.add_written(unix_s, stored.bytes);
                lower_state.writable = WriteState::Ready;
                self.cancel_removals(tier, id);
                self.record_success(tier);
                if to_delete {
                    let lower_state = self.lower_mut(tier);
                    lower_state.pending_removal_bytes += stored.bytes;
                    lower_state.removals.push_back(Removal {
                        id: *id,
                        bytes: stored.bytes,
                        not_before: Duration::ZERO,
                    });
                } else {
                    self.catalog.insert_lower(tier, &stored);
                    self.dirty.insert(*id);
                    self.counts.stored(tier, stored.bytes);
                }
            }
            Err(error) => {
                if to_delete {
                    // An abandoned call may still finish, even after the removal.
                    lower_state.removals.push_back(Removal { id: *id, bytes: 0, not_before: Duration::ZERO });
                    self.unscanned_rows.insert(*id, IndexRow { is_deleted: true, ..IndexRow::default() });
                    self.dirty.insert(*id);
                }
                let lower_state = self.lower_mut(tier);
                lower_state.writable = WriteState::RetryAt(now + RETRY_INTERVAL);
                let waiting = lower_state.queue.clear();
                lower_state.requested_bytes =
                    matches!(error, TierError::Full(_)).then_some(0).or(lower_state.requested_bytes);
                self.counts.dropped.failed += 1 + waiting as u64;
                self.record_failure(tier, now, &error.to_string());
            }
        }
    }

    /// Records that a chunk was not written because other processes have filled the tier. The owner rescans the tier
    /// to make room.
    fn finish_no_room(&mut self, tier: TierKind) {
        let lower_state = self.lower_mut(tier);
        (lower_state.saving, lower_state.remove_after_save) = (None, false);
        if lower_state.is_owner {
            lower_state.scanned_at = None;
        }
        self.counts.dropped.no_room += 1;
    }

    /// Cancels pending removals of a chunk that was written again.
    fn cancel_removals(&mut self, tier: TierKind, id: &ChunkId) {
        let lower_state = self.lower_mut(tier);
        let (same, rest) = lower_state.removals.drain(..).partition::<Vec<_>, _>(|removal| removal.id == *id);
        lower_state.removals = rest.into();
        lower_state.pending_removal_bytes -= same.iter().map(|removal| removal.bytes).sum::<u64>();
    }

    /// Counts a damaged chunk. A tier with several damaged chunks is not written to any more.
    pub(super) fn record_damage(&mut self, tier: TierKind, now: Duration) {
        let lower_state = self.lower_mut(tier);
        lower_state.damaged_at.retain(|&then| now < then + DAMAGE_SPAN);
        lower_state.damaged_at.push_back(now);
        if lower_state.damaged_at.len() >= DAMAGE_LIMIT {
            lower_state.writable = WriteState::Disabled;
            lower_state.last_error =
                Some(format!("it returned {DAMAGE_LIMIT} damaged chunks within {} s", DAMAGE_SPAN.as_secs()));
            let waiting = lower_state.queue.clear();
            self.counts.dropped.failed += waiting as u64;
        }
        self.update_health(now);
    }
}

/// Result of trimming a tier.
#[derive(Clone, Copy, Debug, Default)]
struct TrimResult {
    /// Chunks that are being removed.
    removed: usize,
    /// Chunks that leave after the tier below has copied them.
    copied_below: usize,
}

/// Decision about the first chunk of a write queue.
enum Admission {
    Save(ChunkSource, u64),
    /// There is no space for this many bytes.
    NoRoom(u64),
    /// The chunk is stored already, or must not be written.
    Rejected,
}
