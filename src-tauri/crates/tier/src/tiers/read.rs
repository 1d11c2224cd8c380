//! Bringing chunks back: the threads that read, and the restore that a computing thread polls.
//!
//! A restore's chunks are read a few ahead of the one that is taken next, so that neither waits for the other and memory stays
//! bounded. A place that fails is asked no more; where another has the chunk too, that one is asked.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::state::{Closing, State, high_mark};
use super::status::Gone;
use super::{Inner, Place};
use crate::catalog::LOWER;
use crate::chunk::{Chunk, ChunkHead, ChunkId, Group};
use crate::coverage::{Ask, Coverage};
use crate::tier::{Miss, TierError, Wanted};

/// Chunks of one restore that are read or lie ready before they are taken.
const AHEAD: usize = 4;
/// How long the first chunk of a restore from far away may take at most.
const FIRST: Duration = Duration::from_secs(1);
/// How long a place far away may say nothing at all before who waits for it computes instead.
const SILENCE: Duration = Duration::from_millis(60);

/// A chunk that was compared with what was asked for. There is no other way to make one.
#[derive(Clone, Debug)]
pub struct Restored {
    pub(super) chunk: Chunk,
    rows: usize,
    place: Place,
}

impl Restored {
    /// Compares a chunk with what is wanted: name, parent, position, keys, arithmetic, geometry.
    fn verify(chunk: Chunk, wanted: &Wanted<'_>, place: Place) -> Result<Self, Miss> {
        wanted.check(&chunk.head)?;
        if chunk.head.payload_bytes() != chunk.payload.len() as u64 {
            return Err(Miss::Other("it has another length"));
        }
        Ok(Self { rows: wanted.keys.len(), chunk, place })
    }

    /// What the chunk is.
    pub fn head(&self) -> &ChunkHead {
        &self.chunk.head
    }

    /// Its rows; only the first [`Restored::rows`] tokens' are of use.
    pub fn payload(&self) -> &[u8] {
        &self.chunk.payload
    }

    /// How many of its tokens are those of the request.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Where it came from.
    pub fn place(&self) -> Place {
        self.place
    }
}

/// Why a restore yields no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All chunks have come.
    Complete,
    /// The next chunk is not to be had.
    Missed(Miss),
    /// The next chunk has not come in time.
    Deadline,
    /// The place has not even answered in time. What still comes goes to RAM, where a reader who computes meanwhile may find it.
    Silence,
    /// The tiers are being closed.
    Closed,
}

/// What [`Restoring::try_next`] has.
#[derive(Debug)]
pub enum Next {
    /// The next chunk.
    Ready(Restored),
    /// Nothing yet.
    Waiting,
    /// There will be no more, and why.
    Ended(End),
}

/// A step of a restore.
#[derive(Debug)]
pub(super) enum Slot {
    /// To be read from this place.
    Due(Place),
    /// Being read from this place, since then.
    Reading(Place, Duration),
    Ready(Restored),
    Missed(Miss),
    Taken,
}

/// A restore under way.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) asks: Vec<Ask>,
    pub(super) slots: Vec<Slot>,
    /// Slots that were taken.
    pub(super) taken: usize,
    /// Moves on while all that may be read ahead lies ready, since then the place keeps nobody waiting.
    deadline: Duration,
    /// Since when that has been so.
    ready_since: Option<Duration>,
    /// When the last slot was taken, or the restore began.
    took_at: Duration,
    /// Until when the first chunk is to be there.
    first_by: Duration,
    ended: Option<End>,
    /// Nobody takes what comes: it goes to RAM, see `ahead`.
    pub(super) ahead: bool,
}

impl Job {
    /// Takes out a chunk that was deleted, and returns its rows where they were ready.
    pub(super) fn forget(&mut self, id: &ChunkId) -> Option<Chunk> {
        let index = self.asks.iter().position(|ask| ask.step.id == *id)?;
        let slot = &mut self.slots[index];
        match slot {
            Slot::Taken => None,
            _ => match std::mem::replace(slot, Slot::Missed(Miss::Absent)) {
                Slot::Ready(restored) => Some(restored.chunk),
                _ => None,
            },
        }
    }

    /// Since when a place far away is asked for the next slot, and until when it is to have answered. None where it is not that place's
    /// turn. Who waits without end waits for that, too.
    fn silence(&self) -> Option<(Duration, Duration)> {
        let asked = match self.slots.get(self.taken)? {
            Slot::Due(Place::Remote) => self.took_at,
            // It may have been read ahead.
            Slot::Reading(Place::Remote, since) => self.took_at.min(*since),
            _ => return None,
        };
        let by = if self.deadline == Duration::MAX { Duration::MAX } else { self.took_at.saturating_add(SILENCE) };
        Some((asked, if self.taken == 0 { by.min(self.first_by) } else { by }))
    }

    /// Notes whether the reader is waited for from `now` on.
    fn watch(&mut self, now: Duration) {
        let ahead = self.slots.iter().skip(self.taken).take(AHEAD);
        if !ahead.into_iter().all(|slot| matches!(slot, Slot::Ready(_))) {
            self.ready_since = None;
        } else if self.ready_since.is_none() {
            self.ready_since = Some(now);
        }
    }

    /// Notes that the next slot was taken.
    fn took(&mut self, now: Duration) {
        if let Some(since) = self.ready_since.take() {
            self.deadline = self.deadline.saturating_add(now.saturating_sub(since));
        }
        self.took_at = now;
        self.taken += 1;
        self.watch(now);
    }

    /// The first slot that is to be read from `place` now.
    fn due(&self, place: Place) -> Option<usize> {
        let ahead = self.slots.iter().enumerate().skip(self.taken).take(AHEAD);
        let mut reachable = ahead.take_while(|(_, slot)| !matches!(slot, Slot::Missed(_)));
        reachable.find(|(_, slot)| matches!(slot, Slot::Due(from) if *from == place)).map(|(index, _)| index)
    }
}

/// A restore under way. Dropping it cancels what has not been read.
pub struct Restoring {
    inner: Arc<Inner>,
    job: u64,
    /// Set where the job goes on without it.
    left: bool,
}

impl Restoring {
    pub(super) fn begin(inner: &Arc<Inner>, coverage: &Coverage, tokens: Range<usize>, within: Duration) -> Self {
        let (now, unix_s) = (inner.clock.now(), inner.clock.unix_s());
        let asks: Vec<Ask> = coverage.steps(tokens).into_iter().map(|step| coverage.ask(step)).collect();
        let mut state = inner.lock();
        // The last first, so that a prefix is never older than what continues it.
        for ask in asks.iter().rev() {
            state.used(&inner.config, &ask.step.id, now, unix_s, false);
        }
        let job = state.begin_job(asks, now, within, false);
        drop(state);
        inner.work.notify_all();
        Self { inner: Arc::clone(inner), job, left: false }
    }

    /// The next chunk, if it is there. Never blocks. After an end there is nothing but the same end.
    pub fn try_next(&mut self) -> Next {
        if self.left {
            return Next::Ended(End::Silence);
        }
        let (now, unix_s) = (self.inner.clock.now(), self.inner.clock.unix_s());
        let mut state = self.inner.lock();
        let closing = state.closing.is_some();
        let job = state.jobs.get_mut(&self.job).expect("a job lives as long as its restore");
        if let Some(end) = &job.ended {
            return Next::Ended(end.clone());
        }
        let (index, silence) = (job.taken, job.silence());
        let end = match job.slots.get_mut(index) {
            None => End::Complete,
            Some(slot @ Slot::Ready(_)) => {
                let Slot::Ready(restored) = std::mem::replace(slot, Slot::Taken) else { unreachable!("just matched") };
                job.took(now);
                state.deliver(&self.inner.config, &restored, now, unix_s);
                drop(state);
                self.inner.work.notify_all();
                return Next::Ready(restored);
            }
            Some(Slot::Missed(miss)) => End::Missed(miss.clone()),
            Some(_) if closing => End::Closed,
            Some(_) if silence.is_some_and(|(asked, by)| now >= by && self.inner.config.is_silent(asked)) => {
                End::Silence
            }
            Some(slot) if now >= job.deadline || index == 0 && now >= job.first_by => {
                // Where no thread was free to read it, the place kept them all waiting.
                if let Slot::Due(place) | Slot::Reading(place, _) = *slot {
                    state.failed(place, now, "it kept somebody waiting for too long");
                }
                End::Deadline
            }
            Some(_) => return Next::Waiting,
        };
        if end == End::Silence {
            self.left = true;
            state.counts.ended(&end);
            state.leave(self.job);
            return Next::Ended(end);
        }
        state.jobs.get_mut(&self.job).expect("as above").ended = Some(end.clone());
        state.counts.ended(&end);
        Next::Ended(end)
    }
}

impl Drop for Restoring {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let mut state = self.inner.lock();
        let job = state.end_job(self.job);
        drop(state);
        // Rows that were read but not taken are freed without the lock.
        drop(job);
    }
}

impl State {
    pub(super) fn begin_job(&mut self, asks: Vec<Ask>, now: Duration, within: Duration, ahead: bool) -> u64 {
        let slots: Vec<Slot> = asks.iter().map(|ask| self.begin_step(ask, now)).collect();
        let deadline = now.saturating_add(within);
        // Who waits without end does so for the first chunk, too.
        let first = if within == Duration::MAX { within } else { self.first_within(&asks, &slots).min(within) };
        let first_by = now.saturating_add(first);
        let number = self.next_job;
        self.next_job += 1;
        let mut job =
            Job { asks, slots, taken: 0, deadline, took_at: now, first_by, ready_since: None, ended: None, ahead };
        job.watch(now);
        self.jobs.insert(number, job);
        number
    }

    /// How long to wait for the first chunk of a remote place: twice what it should take. One that gives nothing until then is away,
    /// however long all of it may take, and who computes has lost next to nothing.
    fn first_within(&self, asks: &[Ask], slots: &[Slot]) -> Duration {
        let (Some(ask), Some(Slot::Due(Place::Remote))) = (asks.first(), slots.first()) else { return Duration::MAX };
        // Of one that nobody listed, the length is not known.
        self.rates.restore([0, 0, ask.step.bytes.unwrap_or(1)]).saturating_mul(2).min(FIRST)
    }

    pub(super) fn end_job(&mut self, number: u64) -> Option<Job> {
        let job = self.jobs.remove(&number)?;
        for ask in &job.asks {
            if let Some(entry) = self.catalog.get_mut(&ask.step.id) {
                entry.leases = entry.leases.saturating_sub(1);
            }
        }
        Some(job)
    }

    /// Takes part in a restore: rows in RAM are ready, others must be read.
    fn begin_step(&mut self, ask: &Ask, now: Duration) -> Slot {
        let id = ask.step.id;
        let serves = |place: &Place| {
            let entry = self.catalog.get(&id);
            !self.is_away(*place, now) && entry.is_some_and(|entry| entry.serves(*place, ask.class.as_ref(), ask.lossy))
        };
        let place = self.catalog.places(&id).find(serves);
        let Some(entry) = self.catalog.get_mut(&id) else {
            // A remote place may have what nobody listed.
            return if ask.step.place == Place::Remote { Slot::Due(Place::Remote) } else { Slot::Missed(Miss::Absent) };
        };
        entry.leases += 1;
        match entry.ram.as_ref().filter(|_| place == Some(Place::Ram)) {
            Some(chunk) => match Restored::verify(chunk.clone(), &ask.wanted(), Place::Ram) {
                Ok(restored) => Slot::Ready(restored),
                Err(miss) => Slot::Missed(miss),
            },
            None => place.map_or(Slot::Missed(Miss::Absent), Slot::Due),
        }
    }

    /// A chunk goes to its user: that is a use, and from the second on it is worth a place in RAM.
    fn deliver(&mut self, config: &super::Config, restored: &Restored, now: Duration, unix_s: u64) {
        let id = restored.chunk.head.id;
        let bytes = restored.chunk.head.payload_bytes();
        // Rows of windows stand for the same tokens as those beside them.
        let tokens = if id.group == Group::Full { restored.rows } else { 0 };
        self.counts.restored(restored.place, tokens, bytes);
        // What nobody listed came from far away, so once is enough.
        let wanted = self.catalog.get(&id).is_none_or(|entry| entry.ram.is_none() && (entry.hits >= 1 || entry.pinned));
        // Below the high mark only: what comes back must not push out what is about to be stored.
        if wanted && self.ram_used() + bytes <= high_mark(self.catalog.shelf(Place::Ram).budget()) {
            self.catalog.put_ram(restored.chunk.clone());
            self.counts.stored(Place::Ram, bytes);
        }
        self.used(config, &id, now, unix_s, true);
    }

    /// Files what a read gave. Returns what nobody waits for any more, to be freed without the lock.
    fn finish_read(
        &mut self,
        job: u64,
        index: usize,
        place: Place,
        result: Result<Restored, Miss>,
        now: Duration,
    ) -> Option<Restored> {
        match &result {
            Err(Miss::Tier(error)) => self.failed(place, now, &error.to_string()),
            Err(Miss::Damaged(_)) => self.damaged(place, now),
            _ => self.answered(place),
        }
        let job = self
            .jobs
            .get(&job)
            .filter(|job| matches!(job.slots[index], Slot::Reading(..)))
            .map(|found| (job, found.asks[index].step.id));
        // The restore was cancelled, or the chunk deleted.
        let Some((job, id)) = job else { return result.ok() };
        match &result {
            Ok(restored) => self.catalog.learn(&id, &restored.chunk.head.keys),
            Err(Miss::Absent | Miss::Foreign) => self.lost(place, &id, Gone::Lost),
            Err(Miss::Damaged(_)) => self.lost(place, &id, Gone::Damaged),
            Err(Miss::Other(_)) => {
                if let Some(entry) = self.catalog.get_mut(&id) {
                    entry.suspect = true;
                }
            }
            Err(Miss::Tier(_)) => {}
        }
        let below =
            |other: &Place| *other > place && self.catalog.shelf(*other).holds(&id) && !self.is_away(*other, now);
        let slot = match result {
            Ok(restored) => Slot::Ready(restored),
            Err(Miss::Other(why)) => Slot::Missed(Miss::Other(why)),
            Err(miss) => LOWER.into_iter().find(below).map_or(Slot::Missed(miss), Slot::Due),
        };
        if let Some(job) = self.jobs.get_mut(&job) {
            job.slots[index] = slot;
            job.watch(now);
        }
        self.step_ahead(job);
        None
    }

    /// What is to be read next from a place: the oldest restore first, and what nobody waits for last and one at a time, so that a
    /// thread is left for who comes and waits.
    fn next_read(&mut self, place: Place) -> Option<(u64, usize)> {
        let reads = |slot: &Slot| matches!(slot, Slot::Reading(from, _) if *from == place);
        let reads_ahead = self.jobs.values().any(|job| job.ahead && job.slots.iter().any(reads));
        let next = |ahead: bool| {
            let mut jobs = self.jobs.iter().filter(move |(_, job)| job.ahead == ahead && job.ended.is_none());
            jobs.find_map(|(&id, job)| Some((id, job.due(place)?)))
        };
        next(false).or_else(|| if reads_ahead { None } else { next(true) })
    }
}

impl super::Config {
    /// Whether the remote place has said nothing since then.
    fn is_silent(&self, since: Duration) -> bool {
        let heard_at = self.remote.as_ref().and_then(|lower| lower.tier.heard_at());
        heard_at.is_some_and(|then| then <= since)
    }
}

/// Reads from a place until the tiers are closed.
pub(super) fn run(inner: &Inner, place: Place) {
    let Some(lower) = inner.config.lower(place) else { return };
    let mut state = inner.lock();
    while state.closing != Some(Closing::Now) {
        let Some((number, index)) = state.next_read(place) else {
            if state.closing.is_some() {
                return;
            }
            state = inner.wait(state);
            continue;
        };
        if state.is_ahead_of(number, index) {
            continue;
        }
        let Some(job) = state.jobs.get_mut(&number) else { continue };
        let began = inner.clock.now();
        job.slots[index] = Slot::Reading(place, began);
        let ask = job.asks[index].clone();
        state.hand_mut(place).reading.begin(began);
        drop(state);
        let wanted = ask.wanted();
        let result = super::calmly(|| lower.tier.load(&wanted))
            .unwrap_or_else(|| Err(Miss::Tier(TierError::Failed("reading panicked".to_owned()))))
            .and_then(|chunk| Restored::verify(chunk, &wanted, place));
        let now = inner.clock.now();
        state = inner.lock();
        let bytes = result.as_ref().ok().map(|restored| restored.chunk.head.payload_bytes());
        if let Some(bytes) = bytes {
            state.counts.read(place, bytes, now.saturating_sub(began));
        }
        if let Some((bytes, took)) = state.hand_mut(place).reading.end(bytes, now) {
            state.rates.read(place, bytes, took);
        }
        let unclaimed = state.finish_read(number, index, place, result, now);
        if unclaimed.is_some() {
            drop(state);
            drop(unclaimed);
            state = inner.lock();
        }
    }
}
