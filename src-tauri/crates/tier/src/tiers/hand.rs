//! The thread that changes a place below RAM: it alone scans, writes and removes there, one thing after the other, so that what the
//! catalog says of the place follows what happened to it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::aside::Aside;
use super::queue::{Removal, Writable};
use super::state::{Closing, REST, State, high_mark, low_mark};
use super::status::Gone;
use super::{Config, Inner, Lower, calmly};
use crate::chunk::{Chunk, ChunkId, Group};
use crate::index::Row;
use crate::tier::{Miss, Place, Stored, TierError, Wanted};

/// Chunks that are filed under the lock at once.
const BATCH: usize = 256;
/// What a file may take beyond its sections: header, table, keys, trailer, and folders.
pub(super) const OVERHEAD_BYTES: u64 = 64 << 10;
/// A section is padded to this.
const SECTION_BYTES: u64 = 4 << 10;
/// This many damaged chunks within [`DAMAGE_SPAN`] make a place read-only.
const DAMAGE_LIMIT: usize = 3;
const DAMAGE_SPAN: Duration = Duration::from_secs(600);
/// While answers are computed, a place rests after a write for so many times as long as that took: it needs memory, too, and the
/// system's own threads.
const REST_AFTER: u32 = 4;
/// A write that takes longer may never end.
const STUCK: Duration = Duration::from_secs(10);

/// What a hand does next.
enum Op {
    Scan,
    Remove(Removal),
    Save(ChunkId, Source),
}

/// Where the rows of a chunk that is written down come from.
enum Source {
    Ram(Chunk),
    /// Read from the place above: what it must be.
    Above(Box<Head>),
}

/// What is known of a chunk that is to be read from the place above.
struct Head {
    entry_parent: crate::ChunkHash,
    first_position: u64,
    keys: Option<std::sync::Arc<[crate::Key]>>,
}

/// Serves a place until the tiers are closed.
pub(super) fn run(inner: &Inner, place: Place) {
    let Some(lower) = inner.config.lower(place) else { return };
    std::thread::scope(|scope| serve(inner, lower, place, &Aside::start(scope, &format!("tier-{place}"))));
}

fn serve<'env>(inner: &'env Inner, lower: &'env Lower, place: Place, aside: &Aside<'env>) {
    let mut state = inner.lock();
    loop {
        if state.closing == Some(Closing::Now) {
            return;
        }
        let now = inner.clock.now();
        let paused = state.closing.is_none() && inner.paused.load(Ordering::Relaxed);
        let hurried = state.closing.is_some() || state.hand(place).queue.bytes() > inner.config.queue_bytes / 4 * 3;
        // Before some of it is lost, answers may become a little slower.
        let quietly = !hurried && inner.answering.load(Ordering::Relaxed) > 0;
        let resting = quietly && now < state.hand(place).rest_until;
        let Some(op) = state.choose(&inner.config, place, now, inner.clock.unix_s(), paused || resting) else {
            inner.done.notify_all();
            if state.closing == Some(Closing::Flush) {
                return;
            }
            state = inner.wait(state);
            continue;
        };
        let budget = state.catalog.shelf(place).budget();
        drop(state);
        state = match op {
            Op::Scan => scan(inner, lower, place),
            Op::Remove(removal) => {
                let id = removal.id;
                let removed = aside.run(quietly, move || calmly(|| lower.tier.remove(&id))).unwrap_or_else(panicked);
                let mut state = inner.lock();
                state.finish_removal(place, removal, removed, inner.clock.now());
                state
            }
            Op::Save(id, source) => {
                inner.write_owners(&id);
                inner.promise_day(place);
                let write = move || calmly(|| save(inner, lower, &id, source, budget)).unwrap_or_else(panicked);
                let saved = aside.run(quietly, write);
                let (then, unix_s) = (inner.clock.now(), inner.clock.unix_s());
                let mut state = inner.lock();
                state.hand_mut(place).rest_until = then.saturating_add(REST_AFTER * then.saturating_sub(now));
                match saved.transpose() {
                    Some(saved) => state.finish_save(place, &id, saved, then, unix_s),
                    None => state.finish_crowded(place),
                }
                state
            }
        };
        inner.done.notify_all();
        inner.work.notify_all();
    }
}

fn panicked<T>() -> Result<T, TierError> {
    Err(TierError::Failed("the tier panicked".to_owned()))
}

/// Whether other processes have put so much there that a chunk would be too much, which the catalog does not know before the next scan.
fn others_filled(lower: &Lower, budget: u64, source: &Source) -> bool {
    let Source::Ram(chunk) = source else { return false };
    let taken = lower.taken.as_ref().and_then(|taken| calmly(|| taken()).flatten());
    taken.is_some_and(|taken| taken.saturating_add(most_bytes(chunk)) > budget)
}

/// Writes a chunk, if that leaves others enough room; none where other processes have filled the place.
fn save(inner: &Inner, lower: &Lower, id: &ChunkId, source: Source, budget: u64) -> Result<Option<Stored>, TierError> {
    if others_filled(lower, budget, &source) {
        return Ok(None);
    }
    let chunk = match source {
        Source::Ram(chunk) => chunk,
        Source::Above(head) => read_above(inner, id, &head)?,
    };
    if let Some(floor) = &lower.floor {
        let free = (floor.free)().ok_or_else(|| TierError::Failed("its free room cannot be told".to_owned()))?;
        if free < floor.bytes.saturating_add(most_bytes(&chunk)) {
            return Err(TierError::Full(format!("{free} bytes are free, {} stay so", floor.bytes)));
        }
    }
    lower.tier.save(&chunk).map(Some)
}

fn read_above(inner: &Inner, id: &ChunkId, head: &Head) -> Result<Chunk, TierError> {
    let above = inner.config.ssd.as_ref().ok_or_else(|| TierError::Failed("nothing is above".to_owned()))?;
    let wanted = Wanted {
        id: *id,
        parent: head.entry_parent,
        first_position: head.first_position,
        keys: head.keys.as_deref().unwrap_or_default(),
        class: None,
        lossy: true,
    };
    let loaded = calmly(|| above.tier.load(&wanted)).unwrap_or_else(|| panicked().map_err(Miss::from));
    loaded.map_err(|miss| TierError::Away(miss.to_string()))
}

/// The most that a chunk may take on a disk.
fn most_bytes(chunk: &Chunk) -> u64 {
    let sections = chunk.head.sections.len() as u64;
    chunk.head.payload_bytes() + sections * SECTION_BYTES + OVERHEAD_BYTES
}

/// Looks what a place has, and files it.
fn scan<'a>(inner: &'a Inner, lower: &Lower, place: Place) -> std::sync::MutexGuard<'a, State> {
    let mut found = Vec::new();
    let owns = calmly(|| (lower.owns)()).unwrap_or(false);
    let scanned = calmly(|| lower.tier.scan(&mut |stored| found.push(stored))).unwrap_or_else(panicked);
    for batch in found.chunks(BATCH) {
        let mut state = inner.lock();
        for stored in batch {
            if !state.knows(place, stored) {
                state.catalog.put_lower(place, stored);
                if state.hand(place).purges {
                    state.remove_lower(place, &stored.id, Gone::Deleted);
                } else {
                    state.recall(&stored.id);
                }
            }
        }
    }
    let mut state = inner.lock();
    match scanned {
        Ok(()) => {
            // Only this thread adds here, so what was not seen is gone.
            let seen: std::collections::HashSet<ChunkId> = found.iter().map(|stored| stored.id).collect();
            let gone: Vec<ChunkId> = state.catalog.shelf(place).ids().filter(|id| !seen.contains(id)).collect();
            gone.iter().for_each(|id| state.lost(place, id, Gone::Lost));
            if !owns {
                state.hand_mut(place).forget_removed(|id| !seen.contains(id));
            }
            if !state.hand(place).known {
                // Pins were met in no order.
                let budget = state.catalog.shelf(place).budget();
                state.catalog.set_budget(place, budget);
            }
            let hand = state.hand_mut(place);
            (hand.known, hand.purges) = (true, false);
            state.forget_unmet();
            state.answered(place);
        }
        // A place that cannot even be listed is not there.
        Err(error) => {
            let now = inner.clock.now();
            state.hand_mut(place).away_until = Some(now + REST);
            state.failed(place, now, &error.to_string());
        }
    }
    let hand = state.hand_mut(place);
    hand.owns = owns;
    hand.scanned_at = Some(inner.clock.now());
    state
}

impl State {
    /// Whether the catalog says of a chunk what the scan said, or its removal is under way.
    fn knows(&self, place: Place, stored: &Stored) -> bool {
        self.catalog.shelf(place).holds(&stored.id) || self.hand(place).leaving().any(|id| id == stored.id)
    }

    /// What a hand does next: removals first, since they make room.
    fn choose(&mut self, config: &Config, place: Place, now: Duration, unix_s: u64, paused: bool) -> Option<Op> {
        let lower = config.lower(place)?;
        let rescan = self.hand(place).scanned_at.is_none_or(|then| lower.rescan.is_some_and(|span| now >= then + span));
        if rescan {
            return Some(Op::Scan);
        }
        loop {
            let hand = self.hand_mut(place);
            let due = hand.removals.iter().position(|removal| removal.not_before <= now);
            // What a guest deleted is removed when the place is its own.
            if let Some(next) = due.filter(|_| hand.owns) {
                let removal = hand.removals.remove(next)?;
                hand.removing = Some(removal.id);
                return Some(Op::Remove(removal));
            }
            if self.hand(place).owns && self.trim(config, place, now).removed > 0 {
                continue;
            }
            if paused || !self.hand(place).is_writable(now) {
                return None;
            }
            let id = self.hand(place).queue.first()?;
            let admitted = self.admit(lower, place, &id, unix_s);
            if let Admitted::NoRoom(bytes) = admitted {
                self.hand_mut(place).wanted = Some(bytes);
                if self.hand(place).owns {
                    match self.trim(config, place, now) {
                        Trimmed { removed: 1.., .. } => continue,
                        // There will be room when the place below has what is to leave.
                        Trimmed { handed_on: 1.., .. } => return None,
                        Trimmed { .. } => {}
                    }
                }
                self.counts.dropped.no_room += 1;
            }
            self.hand_mut(place).queue.remove(&id);
            if let Admitted::Save(source, bytes) = admitted {
                let hand = self.hand_mut(place);
                (hand.saving, hand.saving_since) = (Some((id, bytes)), now);
                return Some(Op::Save(id, source));
            }
        }
    }

    /// Whether a chunk may be written now.
    fn admit(&mut self, lower: &Lower, place: Place, id: &ChunkId, unix_s: u64) -> Admitted {
        let Some(entry) = self.catalog.get(id) else { return Admitted::Refused };
        let orphan = entry.first_position > 0
            && id.group == Group::Full
            && !self.catalog.shelf(place).holds(&entry.parent_id(id));
        if orphan {
            self.counts.dropped.orphaned += 1;
        }
        if orphan || self.catalog.shelf(place).holds(id) {
            return Admitted::Refused;
        }
        let (source, bytes) = match &entry.ram {
            Some(chunk) => (Source::Ram(chunk.clone()), most_bytes(chunk)),
            None => {
                let head =
                    Head { entry_parent: entry.parent, first_position: entry.first_position, keys: entry.keys.clone() };
                (Source::Above(Box::new(head)), entry.payload_bytes + OVERHEAD_BYTES)
            }
        };
        let day = unix_s / (24 * 3600);
        let hand = self.hand_mut(place);
        if hand.written.0 != day {
            hand.written = (day, 0);
        }
        if lower.daily_bytes.is_some_and(|cap| hand.written.1 + bytes > cap) {
            self.counts.dropped.daily_cap += 1;
            return Admitted::Refused;
        }
        if self.used_bytes(place) + bytes > self.catalog.shelf(place).budget() {
            return Admitted::NoRoom(bytes);
        }
        Admitted::Save(source, bytes)
    }

    /// Bytes that a place holds, with what is on its way in or out.
    pub(super) fn used_bytes(&self, place: Place) -> u64 {
        let hand = self.hand(place);
        self.catalog.shelf(place).bytes() + hand.leaving_bytes + hand.saving.map_or(0, |(_, bytes)| bytes)
    }

    /// Has chunks removed from a place that is too full. Where a place below can take them, they are copied there first.
    fn trim(&mut self, config: &Config, place: Place, now: Duration) -> Trimmed {
        let budget = self.catalog.shelf(place).budget();
        let staying = self.used_bytes(place) - self.hand(place).leaving_bytes;
        let wanted = self.hand_mut(place).wanted.take();
        if staying <= high_mark(budget) && wanted.is_none() {
            return Trimmed::default();
        }
        let goal = low_mark(budget).min(budget.saturating_sub(wanted.unwrap_or(0)));
        let below = (place == Place::Ssd && self.takes_more(Place::Remote, now)).then_some(Place::Remote);
        let mut excess = staying.saturating_sub(goal);
        let mut trimmed = Trimmed::default();
        let mut passed = std::collections::HashSet::new();
        while excess > 0 {
            let shelf = self.catalog.shelf(place);
            let may_go = |id: &ChunkId| {
                let leased = self.catalog.get(id).is_some_and(|entry| entry.leases > 0);
                let ram = self.catalog.shelf(Place::Ram);
                // What continues it in RAM could not be reached without it.
                !leased && !passed.contains(id) && (ram.holds(id) || !ram.is_continued(id))
            };
            let Some(id) = shelf.victims().find(may_go) else { break };
            if let Some(below) = below
                && !self.catalog.shelf(below).holds(&id)
                && self.deserves(&id, below)
                && self.enqueue(config, below, &id, now)
            {
                // It leaves in a later round, when it has been copied.
                passed.insert(id);
                trimmed.handed_on += 1;
                excess = excess.saturating_sub(self.catalog.get(&id).map_or(1, |entry| entry.payload_bytes));
                continue;
            }
            let leaving_bytes = self.hand(place).leaving_bytes;
            self.remove_lower(place, &id, Gone::Evicted);
            excess = excess.saturating_sub(self.hand(place).leaving_bytes - leaving_bytes);
            trimmed.removed += 1;
        }
        trimmed
    }

    /// Whether a place can be relied on to write what it is given.
    fn takes_more(&self, place: Place, now: Duration) -> bool {
        let hand = self.hand(place);
        let stuck = hand.saving.is_some() && now >= hand.saving_since + STUCK;
        hand.present && self.closing.is_none() && !stuck && !self.is_away(place, now)
    }

    fn finish_removal(&mut self, place: Place, removal: Removal, removed: Result<(), TierError>, now: Duration) {
        self.hand_mut(place).removing = None;
        match removed {
            Ok(()) => {
                self.hand_mut(place).leaving_bytes -= removal.bytes;
                self.dirty.insert(removal.id);
                self.answered(place);
            }
            Err(error) => {
                self.hand_mut(place).removals.push_back(Removal { not_before: now + REST, ..removal });
                self.failed(place, now, &error.to_string());
            }
        }
    }

    fn finish_save(
        &mut self,
        place: Place,
        id: &ChunkId,
        saved: Result<Stored, TierError>,
        now: Duration,
        unix_s: u64,
    ) {
        let hand = self.hand_mut(place);
        hand.saving = None;
        let doomed = std::mem::take(&mut hand.doomed);
        match saved {
            Ok(stored) => {
                hand.written.0 = unix_s / (24 * 3600);
                hand.written.1 += stored.bytes;
                hand.writable = Writable::Yes;
                self.replaced(place, id);
                self.answered(place);
                if doomed {
                    let hand = self.hand_mut(place);
                    hand.leaving_bytes += stored.bytes;
                    hand.removals.push_back(Removal { id: *id, bytes: stored.bytes, not_before: Duration::ZERO });
                } else {
                    self.catalog.put_lower(place, &stored);
                    self.dirty.insert(*id);
                    self.counts.stored(place, stored.bytes);
                }
            }
            Err(error) => {
                if doomed {
                    // A call that was given up may come to its end all the same, even after the removal.
                    hand.removals.push_back(Removal { id: *id, bytes: 0, not_before: Duration::ZERO });
                    self.remembered.insert(*id, Row { doomed: true, ..Row::default() });
                    self.dirty.insert(*id);
                }
                let hand = self.hand_mut(place);
                hand.writable = Writable::From(now + REST);
                let waiting = hand.queue.clear();
                hand.wanted = matches!(error, TierError::Full(_)).then_some(0).or(hand.wanted);
                self.counts.dropped.failed += 1 + waiting as u64;
                self.failed(place, now, &error.to_string());
            }
        }
    }

    /// A chunk is not written, since others have filled the place. Its owner looks what they put there, and makes room.
    fn finish_crowded(&mut self, place: Place) {
        let hand = self.hand_mut(place);
        (hand.saving, hand.doomed) = (None, false);
        if hand.owns {
            hand.scanned_at = None;
        }
        self.counts.dropped.no_room += 1;
    }

    /// A chunk was written anew, so what was to be removed under its name is there no more.
    fn replaced(&mut self, place: Place, id: &ChunkId) {
        let hand = self.hand_mut(place);
        let (same, rest) = hand.removals.drain(..).partition::<Vec<_>, _>(|removal| removal.id == *id);
        hand.removals = rest.into();
        hand.leaving_bytes -= same.iter().map(|removal| removal.bytes).sum::<u64>();
    }

    /// Counts a damaged chunk; a place that gives several of them is not written to any more.
    pub(super) fn damaged(&mut self, place: Place, now: Duration) {
        let hand = self.hand_mut(place);
        hand.damaged_at.retain(|&then| now < then + DAMAGE_SPAN);
        hand.damaged_at.push_back(now);
        if hand.damaged_at.len() >= DAMAGE_LIMIT {
            hand.writable = Writable::No;
            hand.trouble = Some(format!("it gave {DAMAGE_LIMIT} damaged chunks within {} s", DAMAGE_SPAN.as_secs()));
            let waiting = hand.queue.clear();
            self.counts.dropped.failed += waiting as u64;
        }
        self.watch_health(now);
    }
}

/// What was done to make room.
#[derive(Clone, Copy, Debug, Default)]
struct Trimmed {
    /// Chunks that leave now.
    removed: usize,
    /// Chunks that leave when the place below has them.
    handed_on: usize,
}

/// What becomes of a chunk at the head of a queue.
enum Admitted {
    Save(Source, u64),
    /// There is no room for so many bytes.
    NoRoom(u64),
    /// It is there, or not to be written.
    Refused,
}
