//! What the tiers know, all behind one lock: the catalog, the queues, the restores under way.
//!
//! Every method here only computes. What must be read, written, removed or freed is handed to the thread that does it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::hand::OVERHEAD_BYTES;
use super::queue::{Hand, Removal};
use super::read::Job;
use super::status::{Counts, Gone};
use super::trace::Ghosts;
use super::{Config, Kept, Offer, Refused, StoreWhy};
use crate::catalog::{Catalog, Entry, LOWER};
use crate::chunk::{Chunk, ChunkId, Group};
use crate::cost::{Costs, Rates};
use crate::identity::Fingerprint;
use crate::index::Row;
use crate::tier::Place;
use crate::worth::PAUSE;

/// Places are emptied when they are fuller than this, in percent of the budget...
const HIGH_PERCENT: u64 = 95;
/// ... until they are at most this full.
const LOW_PERCENT: u64 = 85;
/// How long a place that failed is left alone.
pub(super) const REST: Duration = Duration::from_secs(60);
/// Nobody wants to wait a second time for what takes this long.
const DEAR: Duration = Duration::from_secs(60);
/// Failed calls in a row after which a place is left alone.
const FAILURES: u32 = 3;

/// Above this a place is emptied.
pub(super) fn high_mark(budget: u64) -> u64 {
    budget / 100 * HIGH_PERCENT + budget % 100 * HIGH_PERCENT / 100
}

/// So far it is emptied.
pub(super) fn low_mark(budget: u64) -> u64 {
    budget / 100 * LOW_PERCENT + budget % 100 * LOW_PERCENT / 100
}

/// How the end goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// What waits is still written.
    Flush,
    /// Everybody leaves.
    Now,
}

/// See the module.
pub(super) struct State {
    pub(super) catalog: Catalog,
    /// Bytes that left the RAM tier and are being freed.
    pub(super) ram_freeing: u64,
    /// RAM was too full, and is emptied until it is well below.
    pub(super) trimming: bool,
    hands: [Hand; 2],
    /// Rows that left RAM, to be freed without the lock, with the bytes that count until then.
    pub(super) trash: Vec<(Chunk, u64)>,
    pub(super) counts: Counts,
    pub(super) ghosts: Ghosts,
    /// What reads have taken.
    pub(super) rates: Rates,
    /// What computing has taken, by model.
    pub(super) costs: HashMap<Fingerprint, Costs>,
    /// Chunks of which the index has to learn something.
    pub(super) dirty: HashSet<ChunkId>,
    /// What the index knows of chunks that no scan has met yet.
    pub(super) remembered: HashMap<ChunkId, Row>,
    pub(super) jobs: BTreeMap<u64, Job>,
    pub(super) next_job: u64,
    pub(super) closing: Option<Closing>,
    pub(super) threads: usize,
}

impl State {
    pub(super) fn new(config: &Config, remembered: HashMap<ChunkId, Row>) -> Self {
        let budget = |place| config.lower(place).map_or(0, |lower| lower.budget_bytes);
        Self {
            catalog: Catalog::new(
                [config.ram_bytes, budget(Place::Ssd), budget(Place::Remote)],
                Arc::clone(&config.worth),
            ),
            ram_freeing: 0,
            trimming: false,
            hands: LOWER.map(|place| Hand::new(config.lower(place).is_some())),
            trash: Vec::new(),
            counts: Counts::default(),
            ghosts: Ghosts::default(),
            rates: Rates::default(),
            costs: HashMap::new(),
            dirty: HashSet::new(),
            remembered,
            jobs: BTreeMap::new(),
            next_job: 0,
            closing: None,
            threads: 0,
        }
    }

    /// The hand of a place below RAM.
    pub(super) fn hand(&self, place: Place) -> &Hand {
        &self.hands[usize::from(place == Place::Remote)]
    }

    pub(super) fn hand_mut(&mut self, place: Place) -> &mut Hand {
        &mut self.hands[usize::from(place == Place::Remote)]
    }

    /// Whether a place is not to be asked now.
    pub(super) fn is_away(&self, place: Place, now: Duration) -> bool {
        place != Place::Ram && self.hand(place).away_until.is_some_and(|then| now < then)
    }

    pub(super) fn is_settled(&self) -> bool {
        self.hands.iter().filter(|hand| hand.present).all(|hand| {
            let idle = hand.queue.len() == 0 && hand.saving.is_none() && !hand.is_removing();
            hand.scanned_at.is_some() && idle
        })
    }

    /// Bytes in RAM, with what is being freed.
    pub(super) fn ram_used(&self) -> u64 {
        self.catalog.shelf(Place::Ram).bytes() + self.ram_freeing
    }

    /// Bytes that RAM never exceeds. Without a budget it holds what waits to be written, if it can be.
    pub(super) fn ram_limit(&self, config: &Config) -> u64 {
        match (self.catalog.shelf(Place::Ram).budget(), self.below_ram()) {
            (0, Some(_)) => config.queue_bytes,
            (budget, _) => budget,
        }
    }

    pub(super) fn ram_fits(&self, config: &Config, bytes: u64) -> bool {
        self.ram_used() + bytes <= self.ram_limit(config)
    }

    /// Keeps a chunk in RAM.
    pub(super) fn store(&mut self, config: &Config, offer: Offer, now: Duration, unix_s: u64) -> Result<Kept, Refused> {
        let Offer { chunk, why, owner, recompute } = offer;
        let (id, head) = (chunk.head.id, chunk.head.clone());
        if self.closing.is_some() {
            return Err(Refused::Closed);
        }
        let entry = self.catalog.get(&id);
        let as_good = |place| entry.is_some_and(|entry| entry.serves(place, Some(&head.class), head.flags.lossy));
        let present = self.catalog.places(&id).any(as_good);
        let another = entry.is_some_and(|entry| entry.suspect || entry.class != head.class);
        if !present {
            let bytes = head.payload_bytes();
            if bytes > self.ram_limit(config) {
                return Err(Refused::TooLarge);
            }
            if !self.ram_fits(config, bytes) {
                self.counts.refused += 1;
                return Err(Refused::Full);
            }
            // Another arithmetic's rows are wanted no more; rounded ones may stay where they are, below.
            if another {
                self.forget(&id, Gone::Replaced);
            }
            self.drop_ram(&id, Gone::Replaced);
            self.catalog.put_ram(chunk);
            self.counts.stored(Place::Ram, bytes);
        }
        let before = self.catalog.get(&ChunkId { hash: head.parent, ..id }).map(|entry| entry.prefix_recompute);
        if let Some(entry) = self.catalog.get_mut(&id)
            && !recompute.is_zero()
        {
            entry.recompute = recompute;
            entry.prefix_recompute = recompute + before.unwrap_or_default();
        }
        self.catalog.touch(&id, now, unix_s);
        self.dirty.insert(id);
        if let Some(owner) = owner {
            self.own(&id, &owner);
        }
        let write_now = match why {
            StoreWhy::Reused | StoreWhy::Idle => self.is_early(config, &id, unix_s),
            StoreWhy::Evicted | StoreWhy::Unload => {
                self.catalog.shelf(Place::Ram).budget() == 0 && self.deserves(&id, Place::Ssd)
            }
        };
        if write_now {
            self.enqueue_below(config, &id, now);
        }
        Ok(if present { Kept::Already } else { Kept::New })
    }

    /// Names an owner of a chunk and of all before it, and of the windows beside them.
    pub(super) fn own(&mut self, id: &ChunkId, owner: &crate::Owner) {
        let mut next = *id;
        while let Some(entry) = self.catalog.get_mut(&next)
            && owner.join(&mut entry.owners)
        {
            let parent = entry.parent_id(&next);
            self.dirty.insert(next);
            let window = next.in_group(Group::Window);
            if self.catalog.get_mut(&window).is_some_and(|entry| owner.join(&mut entry.owners)) {
                self.dirty.insert(window);
            }
            next = parent;
        }
    }

    /// Notes a use; from the second on a chunk is worth being written.
    pub(super) fn used(&mut self, config: &Config, id: &ChunkId, now: Duration, unix_s: u64, hit: bool) {
        if hit {
            self.catalog.count_hit(id, now);
        }
        self.catalog.touch(id, now, unix_s);
        self.dirty.insert(*id);
        if hit && self.is_early(config, id, unix_s) {
            self.enqueue_below(config, id, now);
        }
    }

    /// Whether a chunk may be written before it has come back: while the day's allowance lasts, as a part of a conversation or of what
    /// took very long.
    fn is_early(&self, config: &Config, id: &ChunkId, unix_s: u64) -> bool {
        let Some(limit) = config.early_bytes else { return true };
        let Some((place, entry)) = self.below_ram().zip(self.catalog.get(id)) else { return false };
        let (day, bytes) = self.hand(place).written;
        let written = if day == unix_s / (24 * 3600) { bytes } else { 0 } + self.hand(place).queue.bytes();
        let again = |entry: &Entry| entry.hits > 0 || entry.pinned || !entry.owners.is_empty();
        let goes_on = || self.catalog.get(&entry.parent_id(id)).is_some_and(again);
        let dear = entry.prefix_recompute >= DEAR;
        self.deserves(id, place) || (written < limit && (dear || again(entry) || goes_on()))
    }

    /// Whether a chunk is part of a conversation that has not paused.
    pub(super) fn is_under_way(&self, id: &ChunkId, now: Duration) -> bool {
        self.catalog.get(id).is_some_and(|entry| now < entry.last_use_at.saturating_add(PAUSE))
    }

    pub(super) fn deserves(&self, id: &ChunkId, place: Place) -> bool {
        self.catalog.get(id).is_some_and(|entry| self.catalog.worth().deserves(&self.catalog.facts(entry), place))
    }

    /// The place to which RAM writes.
    pub(super) fn below_ram(&self) -> Option<Place> {
        LOWER.into_iter().find(|&place| self.hand(place).present)
    }

    /// Has a chunk of RAM written to the next place, with all before it. Returns whether it is there or will be.
    pub(super) fn enqueue_below(&mut self, config: &Config, id: &ChunkId, now: Duration) -> bool {
        self.below_ram().is_some_and(|place| self.enqueue(config, place, id, now))
    }

    /// Has a chunk written to a place, with all before it. Returns whether it is there or will be.
    pub(super) fn enqueue(&mut self, config: &Config, place: Place, id: &ChunkId, now: Duration) -> bool {
        let Some(entry) = self.catalog.get(id) else { return false };
        let long = entry.first_position + u64::from(entry.tokens) >= config.min_tokens;
        let dear = !config.weigh || entry.prefix_recompute.is_zero() || entry.prefix_recompute >= config.min_recompute;
        // What never fits would wait for ever, and keep its room in RAM meanwhile.
        let fits = entry.payload_bytes.saturating_add(OVERHEAD_BYTES) <= self.catalog.shelf(place).budget();
        if !(long && dear && fits && self.hand(place).is_writable(now)) {
            return false;
        }
        let mut path = Vec::new();
        let mut next = *id;
        while !self.catalog.shelf(place).holds(&next) && !self.hand(place).is_due(&next) {
            // A hole would make what comes after it useless.
            let Some(entry) = self.catalog.get(&next) else { return false };
            if entry.ram.is_none() && (place == Place::Ssd || !self.catalog.shelf(Place::Ssd).holds(&next)) {
                return false;
            }
            path.push(next);
            if entry.first_position == 0 || next.group == Group::Window {
                break;
            }
            next = entry.parent_id(&next);
        }
        path.into_iter().rev().all(|id| self.push(config, place, id))
    }

    /// Puts a chunk at the end of a place's queue; in place of colder ones, where it is full.
    fn push(&mut self, config: &Config, place: Place, id: ChunkId) -> bool {
        let Some(entry) = self.catalog.get(&id) else { return false };
        let (parent, bytes, rank) =
            (entry.parent_id(&id), entry.payload_bytes, self.catalog.worth().rank(&self.catalog.facts(entry)));
        let unlimited = self.closing.is_some();
        let mut dropped = 0;
        let hand = self.hand_mut(place);
        while !unlimited && hand.queue.bytes() + bytes > config.queue_bytes {
            let saving = hand.saving.map(|(id, _)| id);
            let colder = |other: &ChunkId| Some(*other) != saving && *other != parent;
            let Some(victim) = hand.queue.shelf.victims().find(colder) else {
                self.counts.dropped.queue_full += 1;
                return false;
            };
            hand.queue.remove(&victim);
            dropped += 1;
        }
        hand.queue.push(id, parent, bytes, rank);
        self.counts.dropped.queue_full += dropped;
        true
    }

    /// Takes a chunk out of every place, and out of restores; what is below RAM is removed by the hands.
    pub(super) fn forget(&mut self, id: &ChunkId, why: Gone) {
        for place in LOWER {
            self.remove_lower(place, id, why);
        }
        self.drop_ram(id, why);
        let rows = self.jobs.values_mut().flat_map(|job| job.forget(id));
        self.trash.extend(rows.map(|chunk| (chunk, 0)));
    }

    /// Takes a chunk out of RAM.
    pub(super) fn drop_ram(&mut self, id: &ChunkId, why: Gone) {
        let Some(chunk) = self.catalog.drop_ram(id) else { return };
        let bytes = chunk.head.payload_bytes();
        self.ram_freeing += bytes;
        self.trash.push((chunk, bytes));
        self.left(Place::Ram, id, bytes, why);
    }

    /// Has a chunk removed from a place below RAM, and from its queue.
    pub(super) fn remove_lower(&mut self, place: Place, id: &ChunkId, why: Gone) {
        let bytes = self.catalog.drop_lower(place, id);
        let hand = self.hand_mut(place);
        hand.queue.remove(id);
        hand.doomed |= hand.saving.is_some_and(|(saving, _)| saving == *id);
        if let Some(bytes) = bytes {
            hand.leaving_bytes += bytes;
            hand.removals.push_back(Removal { id: *id, bytes, not_before: Duration::ZERO });
            self.left(place, id, bytes, why);
        }
    }

    /// Notes that a place has lost a chunk by itself.
    pub(super) fn lost(&mut self, place: Place, id: &ChunkId, why: Gone) {
        if let Some(bytes) = self.catalog.drop_lower(place, id) {
            self.left(place, id, bytes, why);
        }
    }

    fn left(&mut self, place: Place, id: &ChunkId, bytes: u64, why: Gone) {
        self.counts.gone(place, bytes, why);
        if self.catalog.get(id).is_none() {
            self.ghosts.add(*id, why);
            self.dirty.insert(*id);
        }
    }

    /// Counts a failed call; a place that fails again and again is left alone for a while.
    pub(super) fn failed(&mut self, place: Place, now: Duration, why: &str) {
        let hand = self.hand_mut(place);
        hand.failures += 1;
        hand.trouble = Some(why.to_owned());
        if hand.failures >= FAILURES {
            hand.away_until = Some(now + REST);
        }
        self.counts.flow(place).failed += 1;
        self.watch_health(now);
    }

    /// A call that came back well: the place is there.
    pub(super) fn answered(&mut self, place: Place) {
        let hand = self.hand_mut(place);
        hand.failures = 0;
        hand.away_until = None;
    }

    /// Lets nothing new in, and has all that is only in RAM written, the most wanted first.
    pub(super) fn begin_close(&mut self, config: &Config, now: Duration) {
        self.closing = Some(Closing::Flush);
        let Some(place) = self.below_ram() else { return };
        let worth = self.catalog.worth();
        let mut only_here: Vec<_> = (self.catalog.entries())
            .filter(|(id, entry)| {
                entry.ram.is_some() && LOWER.iter().all(|&lower| !self.catalog.shelf(lower).holds(id))
            })
            .map(|(id, entry)| {
                let facts = self.catalog.facts(entry);
                ((!entry.pinned, !worth.deserves(&facts, place), entry.hits == 0, entry.first_position), *id)
            })
            .collect();
        only_here.sort_unstable();
        for (_, id) in only_here {
            self.enqueue(config, place, &id, now);
        }
    }
}
