//! What a place below RAM has to do: chunks to write, chunks to remove, and how it fared with those before.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use crate::chunk::ChunkId;
use crate::shelf::Shelf;

/// Chunks that wait to be written to a place, parents before children.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) shelf: Shelf,
    order: BTreeMap<u64, ChunkId>,
    numbers: HashMap<ChunkId, u64>,
    next: u64,
}

impl Queue {
    fn new() -> Self {
        Self { shelf: Shelf::new(0), order: BTreeMap::new(), numbers: HashMap::new(), next: 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.shelf.bytes()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn holds(&self, id: &ChunkId) -> bool {
        self.numbers.contains_key(id)
    }

    pub(super) fn first(&self) -> Option<ChunkId> {
        self.order.values().next().copied()
    }

    pub(super) fn push(&mut self, id: ChunkId, parent: ChunkId, bytes: u64, rank: u64) {
        self.shelf.insert(id, parent, bytes, rank);
        self.order.insert(self.next, id);
        self.numbers.insert(id, self.next);
        self.next += 1;
    }

    pub(super) fn remove(&mut self, id: &ChunkId) -> bool {
        let Some(number) = self.numbers.remove(id) else { return false };
        self.order.remove(&number);
        self.shelf.remove(id);
        true
    }

    pub(super) fn clear(&mut self) -> usize {
        let waiting = self.len();
        *self = Self { next: self.next, ..Self::new() };
        waiting
    }
}

/// A chunk that is to be removed from a place.
#[derive(Clone, Debug)]
pub(super) struct Removal {
    pub(super) id: ChunkId,
    /// Bytes that it takes until it is removed.
    pub(super) bytes: u64,
    /// Not tried before.
    pub(super) not_before: Duration,
}

/// Whether a place may be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Writable {
    Yes,
    /// It failed and is tried again then.
    From(Duration),
    /// It gave too much that was damaged.
    No,
}

/// Reads from a place that follow on each other or overlap. Together they tell what the place gives: of two reads at a time each takes
/// longer than it would alone, and a pause between two is the reader's own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spell {
    /// Reads under way.
    reads: usize,
    since: Duration,
    bytes: u64,
    /// One gave nothing, so its time tells nothing.
    spoilt: bool,
}

impl Spell {
    /// A read begins.
    pub(super) fn begin(&mut self, now: Duration) {
        if self.reads == 0 {
            *self = Self { since: now, ..Self::default() };
        }
        self.reads += 1;
    }

    /// A read gave so many bytes, or failed. Returns bytes and time of the spell that ends with it.
    pub(super) fn end(&mut self, bytes: Option<u64>, now: Duration) -> Option<(u64, Duration)> {
        self.reads = self.reads.saturating_sub(1);
        self.bytes += bytes.unwrap_or(0);
        self.spoilt |= bytes.is_none();
        (self.reads == 0 && !self.spoilt).then(|| (self.bytes, now.saturating_sub(self.since)))
    }
}

/// What the threads of a place below RAM have to do, and how they fared.
#[derive(Debug)]
pub(super) struct Hand {
    pub(super) present: bool,
    pub(super) scanned_at: Option<Duration>,
    /// Whether a scan has told of all that is there.
    pub(super) known: bool,
    /// Everything was deleted before that: what the first scan finds is to go.
    pub(super) purges: bool,
    /// Whether this process may evict.
    pub(super) owns: bool,
    pub(super) queue: Queue,
    /// Nothing is written before then while answers are computed.
    pub(super) rest_until: Duration,
    /// Being written now, and bytes set aside for it.
    pub(super) saving: Option<(ChunkId, u64)>,
    /// Since when.
    pub(super) saving_since: Duration,
    /// What is being written is to be removed as soon as it is there.
    pub(super) doomed: bool,
    pub(super) reading: Spell,
    pub(super) removals: VecDeque<Removal>,
    /// Being removed now.
    pub(super) removing: Option<ChunkId>,
    /// Bytes of all removals.
    pub(super) leaving_bytes: u64,
    pub(super) writable: Writable,
    /// Room for so many bytes is wanted, however full the place is.
    pub(super) wanted: Option<u64>,
    pub(super) failures: u32,
    /// What went wrong last.
    pub(super) trouble: Option<String>,
    pub(super) away_until: Option<Duration>,
    /// When damaged chunks were met of late.
    pub(super) damaged_at: VecDeque<Duration>,
    /// Day since 1970, and what was written on it.
    pub(super) written: (u64, u64),
    /// What the index says was written that day: no less.
    pub(super) promised: (u64, u64),
}

impl Hand {
    pub(super) fn new(present: bool) -> Self {
        Self {
            present,
            scanned_at: None,
            known: false,
            purges: false,
            owns: false,
            queue: Queue::new(),
            rest_until: Duration::ZERO,
            saving: None,
            saving_since: Duration::ZERO,
            doomed: false,
            reading: Spell::default(),
            removals: VecDeque::new(),
            removing: None,
            leaving_bytes: 0,
            writable: Writable::Yes,
            wanted: None,
            failures: 0,
            trouble: None,
            away_until: None,
            damaged_at: VecDeque::new(),
            written: (0, 0),
            promised: (0, 0),
        }
    }

    /// Whether a chunk waits to be written, or is being written.
    pub(super) fn is_due(&self, id: &ChunkId) -> bool {
        self.queue.holds(id) || self.saving.is_some_and(|(saving, _)| saving == *id)
    }

    /// Whether something is being removed, or about to be.
    pub(super) fn is_removing(&self) -> bool {
        let due = self.owns && self.removals.iter().any(|removal| removal.not_before.is_zero());
        self.removing.is_some() || self.doomed || due
    }

    /// Forgets removals of what somebody else has removed.
    pub(super) fn forget_removed(&mut self, is_gone: impl Fn(&ChunkId) -> bool) {
        self.removals.retain(|removal| !is_gone(&removal.id));
        self.leaving_bytes = self.removals.iter().map(|removal| removal.bytes).sum();
    }

    /// What is to be removed.
    pub(super) fn leaving(&self) -> impl Iterator<Item = ChunkId> {
        let saving = self.saving.filter(|_| self.doomed).map(|(id, _)| id);
        self.removals.iter().map(|removal| removal.id).chain(saving).chain(self.removing)
    }

    /// How much is still to be removed.
    pub(super) fn removals_left(&self) -> usize {
        self.removals.len() + usize::from(self.removing.is_some()) + usize::from(self.doomed)
    }

    pub(super) fn is_writable(&self, now: Duration) -> bool {
        match self.writable {
            Writable::Yes => true,
            Writable::From(then) => now >= then,
            Writable::No => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_at_a_time_are_measured_together() {
        let at = Duration::from_millis;
        let mut spell = Spell::default();
        spell.begin(at(10));
        spell.begin(at(11));
        assert_eq!(spell.end(Some(5), at(30)), None, "one still reads");
        assert_eq!(
            spell.end(Some(7), at(31)),
            Some((12, at(21))),
            "both, from the first's beginning to the last's end"
        );
        spell.begin(at(90));
        assert_eq!(spell.end(Some(3), at(95)), Some((3, at(5))), "the pause between does not count");
        spell.begin(at(100));
        assert_eq!(spell.end(None, at(900)), None, "a read that failed tells nothing of the rate");
    }
}
