//! Restores: the reader threads, and the handle that a computing thread polls.
//!
//! A restore's chunks are read a few ahead of the reader, so that neither side waits and memory stays bounded. If a
//! tier fails, a slower tier with the same chunk is tried.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::removed_chunks::RemovalReason;
use super::restore_job::{RestoreEnd, RestoreJob, RestoredChunk, Slot, Waker};
use super::state::{ShutdownPhase, State, high_mark};
use super::{Inner, TierKind};
use crate::catalog::LOWER_TIERS;
use crate::chunk::Group;
use crate::coverage::{Coverage, ReadRequest};
use crate::tier::{Miss, TierError};

/// Maximum wait for the first chunk of a remote restore.
const FIRST_CHUNK_TIMEOUT: Duration = Duration::from_secs(1);
/// Minimum time between two polls that check a deadline.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Result of [`Restore::try_next`].
#[derive(Debug)]
pub enum RestorePoll {
    /// The next chunk.
    Ready(RestoredChunk),
    /// The next chunk has not arrived yet.
    Pending,
    /// The restore has ended.
    Ended(RestoreEnd),
}

/// Handle of a running restore. Dropping it cancels the remaining reads.
pub struct Restore {
    inner: Arc<Inner>,
    job: u64,
    /// The job continues as a prefetch.
    is_detached: bool,
}

impl Restore {
    pub(super) fn begin(inner: &Arc<Inner>, coverage: &Coverage, tokens: Range<usize>, within: Duration) -> Self {
        let (now, unix_s) = (inner.clock.now(), inner.clock.unix_s());
        let requests: Vec<ReadRequest> =
            coverage.steps(tokens).into_iter().map(|step| coverage.read_request(step)).collect();
        let mut state = inner.lock();
        // Last chunk first, so that a prefix is never older than its continuation.
        for request in requests.iter().rev() {
            state.record_use(&inner.config, &request.step.id, now, unix_s, false);
        }
        let job = state.begin_job(requests, now, within, false);
        drop(state);
        inner.work.notify_all();
        Self { inner: Arc::clone(inner), job, is_detached: false }
    }

    /// Sets a callback for each chunk that arrives or cannot be loaded, and for the end.
    pub fn set_waker(&mut self, waker: Waker) {
        if let Some(job) = self.inner.lock().jobs.get_mut(&self.job) {
            job.waker = Some(waker);
        }
    }

    /// Time until a pending restore must be polled even without a wake-up, to check its deadlines.
    pub fn poll_within(&self) -> Duration {
        let deadline = self.inner.lock().jobs.get(&self.job).map_or(Duration::ZERO, RestoreJob::next_deadline);
        deadline.saturating_sub(self.inner.clock.now()).max(MIN_POLL_INTERVAL)
    }

    /// Returns the next chunk if it has arrived. Never blocks. After the end it always returns the same end.
    pub fn try_next(&mut self) -> RestorePoll {
        if self.is_detached {
            return RestorePoll::Ended(RestoreEnd::NoResponse);
        }
        let (now, unix_s) = (self.inner.clock.now(), self.inner.clock.unix_s());
        let mut state = self.inner.lock();
        let closing = state.closing.is_some();
        let job = state.jobs.get_mut(&self.job).expect("the job exists as long as its handle");
        if let Some(end) = &job.ended {
            return RestorePoll::Ended(end.clone());
        }
        let (index, window) = (job.taken, job.response_window());
        let end = match job.slots.get_mut(index) {
            None => RestoreEnd::Complete,
            Some(slot @ Slot::Ready(_)) => {
                let Slot::Ready(restored) = std::mem::replace(slot, Slot::Taken) else { unreachable!("just matched") };
                job.advance(now);
                state.deliver(&self.inner.config, &restored, now, unix_s);
                drop(state);
                self.inner.work.notify_all();
                return RestorePoll::Ready(restored);
            }
            Some(Slot::Missed(miss)) => RestoreEnd::Missed(miss.clone()),
            Some(_) if closing => RestoreEnd::Closed,
            Some(_)
                if window
                    .is_some_and(|(asked_at, by)| now >= by && self.inner.config.is_unresponsive_since(asked_at)) =>
            {
                RestoreEnd::NoResponse
            }
            Some(slot) if now >= job.deadline || index == 0 && now >= job.first_by => {
                // If no thread was free to read the chunk, the tier kept all of them waiting.
                if let Slot::Due(tier) | Slot::Reading(tier, _) = *slot {
                    state.record_failure(tier, now, "a read took too long");
                }
                RestoreEnd::Deadline
            }
            Some(_) => return RestorePoll::Pending,
        };
        if end == RestoreEnd::NoResponse {
            self.is_detached = true;
            state.counts.restore_ended(&end);
            state.continue_as_prefetch(self.job);
            drop(state);
            self.inner.work.notify_all();
            return RestorePoll::Ended(end);
        }
        state.jobs.get_mut(&self.job).expect("the job exists as long as its handle").ended = Some(end.clone());
        state.counts.restore_ended(&end);
        RestorePoll::Ended(end)
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        if self.is_detached {
            return;
        }
        let mut state = self.inner.lock();
        let job = state.end_job(self.job);
        drop(state);
        // Free the rows without holding the lock.
        drop(job);
    }
}

impl State {
    pub(super) fn begin_job(
        &mut self,
        requests: Vec<ReadRequest>,
        now: Duration,
        within: Duration,
        is_prefetch: bool,
    ) -> u64 {
        let slots: Vec<Slot> = requests.iter().map(|request| self.begin_step(request, now)).collect();
        let deadline = now.saturating_add(within);
        // A reader without deadline waits for the first chunk without limit, too.
        let first =
            if within == Duration::MAX { within } else { self.first_chunk_timeout(&requests, &slots).min(within) };
        let first_by = now.saturating_add(first);
        let number = self.next_job;
        self.next_job += 1;
        let mut job = RestoreJob {
            requests,
            slots,
            taken: 0,
            deadline,
            took_at: now,
            first_by,
            ready_since: None,
            ended: None,
            is_prefetch,
            waker: None,
        };
        job.update_ready_since(now);
        self.jobs.insert(number, job);
        number
    }

    /// Returns the time limit for a remote tier's first chunk: twice the estimate. A tier that delivers nothing by
    /// then is unavailable, however long the whole restore may take.
    fn first_chunk_timeout(&self, requests: &[ReadRequest], slots: &[Slot]) -> Duration {
        let (Some(request), Some(Slot::Due(TierKind::Remote))) = (requests.first(), slots.first()) else {
            return Duration::MAX;
        };
        // The size of an unlisted chunk is unknown.
        self.rates.estimate_restore([0, 0, request.step.bytes.unwrap_or(1)]).saturating_mul(2).min(FIRST_CHUNK_TIMEOUT)
    }

    pub(super) fn end_job(&mut self, number: u64) -> Option<RestoreJob> {
        let job = self.jobs.remove(&number)?;
        for request in &job.requests {
            if let Some(entry) = self.catalog.get_mut(&request.step.id) {
                entry.leases = entry.leases.saturating_sub(1);
            }
        }
        Some(job)
    }

    /// Leases a chunk for a restore. Its rows in RAM are ready; others must be read.
    fn begin_step(&mut self, request: &ReadRequest, now: Duration) -> Slot {
        let id = request.step.id;
        let serves = |tier: &TierKind| {
            let entry = self.catalog.get(&id);
            !self.is_unavailable(*tier, now)
                && entry.is_some_and(|entry| entry.serves(*tier, request.class.as_ref(), request.allow_lossy))
        };
        let tier = self.catalog.tiers_of(&id).find(serves);
        let Some(entry) = self.catalog.get_mut(&id) else {
            // The remote tier may have an unlisted chunk.
            return if request.step.tier == TierKind::Remote {
                Slot::Due(TierKind::Remote)
            } else {
                Slot::Missed(Miss::Absent)
            };
        };
        entry.leases += 1;
        match entry.ram.as_ref().filter(|_| tier == Some(TierKind::Ram)) {
            Some(chunk) => match RestoredChunk::verify(chunk.clone(), &request.wanted(), TierKind::Ram) {
                Ok(restored) => Slot::Ready(restored),
                Err(miss) => Slot::Missed(miss),
            },
            None => tier.map_or(Slot::Missed(Miss::Absent), Slot::Due),
        }
    }

    /// Records that the reader took a chunk. From the second use on the chunk goes to RAM.
    fn deliver(&mut self, config: &super::Config, restored: &RestoredChunk, now: Duration, unix_s: u64) {
        let id = restored.chunk.head.id;
        let bytes = restored.chunk.head.payload_bytes();
        // Window chunks have the same tokens as the full-attention chunks beside them.
        let tokens = if id.group == Group::Full { restored.rows } else { 0 };
        self.counts.restored(restored.tier, tokens, bytes);
        // An unlisted chunk comes from the remote tier, so one use is enough.
        let wanted = self.catalog.get(&id).is_none_or(|entry| entry.ram.is_none() && (entry.hits >= 1 || entry.pinned));
        // Only below the high mark: restored chunks must not displace chunks about to be stored.
        if wanted && self.ram_used() + bytes <= high_mark(self.catalog.tier(TierKind::Ram).budget()) {
            self.catalog.insert_ram(restored.chunk.clone());
            self.counts.stored(TierKind::Ram, bytes);
        }
        self.record_use(config, &id, now, unix_s, true);
    }

    /// Records the result of a read. Returns an unclaimed result, to be freed without the lock.
    fn finish_read(
        &mut self,
        job: u64,
        index: usize,
        tier: TierKind,
        result: Result<RestoredChunk, Miss>,
        now: Duration,
    ) -> Option<RestoredChunk> {
        match &result {
            Err(Miss::Tier(error)) => self.record_failure(tier, now, &error.to_string()),
            Err(Miss::Damaged(_)) => self.record_damage(tier, now),
            _ => self.record_success(tier),
        }
        let job = self
            .jobs
            .get(&job)
            .filter(|job| matches!(job.slots[index], Slot::Reading(..)))
            .map(|found| (job, found.requests[index].step.id));
        // The restore was cancelled, or the chunk was deleted.
        let Some((job, id)) = job else { return result.ok() };
        match &result {
            Ok(restored) => self.catalog.set_keys(&id, &restored.chunk.head.keys),
            Err(Miss::Absent | Miss::Foreign) => self.drop_missing(tier, &id, RemovalReason::Lost),
            Err(Miss::Damaged(_)) => self.drop_missing(tier, &id, RemovalReason::Damaged),
            Err(Miss::Mismatch(_)) => {
                if let Some(entry) = self.catalog.get_mut(&id) {
                    entry.suspect = true;
                }
            }
            Err(Miss::Tier(_)) => {}
        }
        let below = |other: &TierKind| {
            *other > tier && self.catalog.tier(*other).contains(&id) && !self.is_unavailable(*other, now)
        };
        let slot = match result {
            Ok(restored) => Slot::Ready(restored),
            Err(Miss::Mismatch(why)) => Slot::Missed(Miss::Mismatch(why)),
            Err(miss) => LOWER_TIERS.into_iter().find(below).map_or(Slot::Missed(miss), Slot::Due),
        };
        if let Some(job) = self.jobs.get_mut(&job) {
            job.slots[index] = slot;
            job.update_ready_since(now);
            job.wake();
        }
        self.advance_prefetch(job);
        None
    }

    /// Returns the next read from a tier: the oldest restore first, prefetches last and one at a time, so that threads
    /// stay free for new restores.
    fn next_read(&mut self, tier: TierKind) -> Option<(u64, usize)> {
        let reads = |slot: &Slot| matches!(slot, Slot::Reading(from, _) if *from == tier);
        let reads_ahead = self.jobs.values().any(|job| job.is_prefetch && job.slots.iter().any(reads));
        let next = |ahead: bool| {
            let mut jobs = self.jobs.iter().filter(move |(_, job)| job.is_prefetch == ahead && job.ended.is_none());
            jobs.find_map(|(&id, job)| Some((id, job.next_due(tier)?)))
        };
        next(false).or_else(|| if reads_ahead { None } else { next(true) })
    }
}

impl super::Config {
    /// Returns whether the remote tier has not responded since this time.
    fn is_unresponsive_since(&self, since: Duration) -> bool {
        let last_response_at = self.remote.as_ref().and_then(|lower| lower.tier.last_response_at());
        last_response_at.is_some_and(|then| then <= since)
    }
}

/// Reads from a tier until shutdown.
pub(super) fn run(inner: &Inner, tier: TierKind) {
    let Some(lower) = inner.config.lower(tier) else { return };
    let mut state = inner.lock();
    while state.closing != Some(ShutdownPhase::Now) {
        let Some((number, index)) = state.next_read(tier) else {
            if state.closing.is_some() {
                return;
            }
            inner.work.wait(&mut state);
            continue;
        };
        if state.skip_if_in_ram(number, index) {
            continue;
        }
        let Some(job) = state.jobs.get_mut(&number) else { continue };
        let began = inner.clock.now();
        job.slots[index] = Slot::Reading(tier, began);
        let request = job.requests[index].clone();
        state.lower_mut(tier).reading.begin(began);
        drop(state);
        let wanted = request.wanted();
        let result = super::catch_panic(|| lower.tier.load(&wanted))
            .unwrap_or_else(|| Err(Miss::Tier(TierError::Failed("a read panicked".to_owned()))))
            .and_then(|chunk| RestoredChunk::verify(chunk, &wanted, tier));
        let now = inner.clock.now();
        state = inner.lock();
        let bytes = result.as_ref().ok().map(|restored| restored.chunk.head.payload_bytes());
        if let Some(bytes) = bytes {
            state.counts.read(tier, bytes, now.saturating_sub(began));
        }
        if let Some((bytes, took)) = state.lower_mut(tier).reading.end(bytes, now) {
            state.rates.record_read(tier, bytes, took);
        }
        let unclaimed = state.finish_read(number, index, tier, result, now);
        // A slower tier may have to read the chunk now, and a prefetch may continue.
        inner.work.notify_all();
        if unclaimed.is_some() {
            drop(state);
            drop(unclaimed);
            state = inner.lock();
        }
    }
}
