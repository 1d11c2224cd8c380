//! State of a tier below RAM: its write queue, pending removals, and health.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use crate::chunk::ChunkId;
use crate::eviction_set::EvictionSet;

/// Maximum size of a file beyond its sections: header, table, keys, trailer and folders.
pub(super) const OVERHEAD_BYTES: u64 = 64 << 10;

/// Chunks that wait to be written to a tier, parents before children.
#[derive(Debug)]
pub(super) struct WriteQueue {
    pub(super) chunks: EvictionSet,
    /// Chunks in the order of their arrival, with the time of it.
    order: BTreeMap<u64, (ChunkId, Duration)>,
    numbers: HashMap<ChunkId, u64>,
    next: u64,
}

impl WriteQueue {
    fn new() -> Self {
        Self { chunks: EvictionSet::new(0), order: BTreeMap::new(), numbers: HashMap::new(), next: 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.chunks.bytes()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn contains(&self, id: &ChunkId) -> bool {
        self.numbers.contains_key(id)
    }

    /// Returns the oldest chunk, and the time at which it was queued.
    pub(super) fn first(&self) -> Option<(ChunkId, Duration)> {
        self.order.values().next().copied()
    }

    pub(super) fn push(&mut self, id: ChunkId, parent: ChunkId, bytes: u64, rank: u64, now: Duration) {
        self.chunks.insert(id, parent, bytes, rank);
        self.order.insert(self.next, (id, now));
        self.numbers.insert(id, self.next);
        self.next += 1;
    }

    pub(super) fn remove(&mut self, id: &ChunkId) -> bool {
        let Some(number) = self.numbers.remove(id) else { return false };
        self.order.remove(&number);
        self.chunks.remove(id);
        true
    }

    pub(super) fn clear(&mut self) -> usize {
        let waiting = self.len();
        *self = Self { next: self.next, ..Self::new() };
        waiting
    }
}

/// A chunk to remove from a tier.
#[derive(Clone, Debug)]
pub(super) struct Removal {
    pub(super) id: ChunkId,
    /// Size that it occupies until then.
    pub(super) bytes: u64,
    /// Earliest time of the next attempt.
    pub(super) not_before: Duration,
}

/// Whether a tier may be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WriteState {
    Ready,
    /// A write failed; retry at this time.
    RetryAt(Duration),
    /// The tier returned too many damaged chunks.
    Disabled,
}

/// A burst of consecutive or overlapping reads. They are measured together: concurrent reads slow each other down, and
/// a pause between bursts is the reader's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadBurst {
    /// Number of running reads.
    reads: usize,
    since: Duration,
    bytes: u64,
    /// A read failed, so the burst is not measured.
    spoilt: bool,
}

impl ReadBurst {
    /// Records the start of a read.
    pub(super) fn begin(&mut self, now: Duration) {
        if self.reads == 0 {
            *self = Self { since: now, ..Self::default() };
        }
        self.reads += 1;
    }

    /// Records the end of a read: its bytes, or `None` if it failed. Returns bytes and duration of a burst that ends
    /// with it.
    pub(super) fn end(&mut self, bytes: Option<u64>, now: Duration) -> Option<(u64, Duration)> {
        self.reads = self.reads.saturating_sub(1);
        self.bytes += bytes.unwrap_or(0);
        self.spoilt |= bytes.is_none();
        (self.reads == 0 && !self.spoilt).then(|| (self.bytes, now.saturating_sub(self.since)))
    }
}

/// Seconds of a day (UTC).
const DAY_S: u64 = 24 * 3600;

/// State of a tier below RAM.
#[derive(Debug)]
pub(super) struct LowerTierState {
    pub(super) is_configured: bool,
    pub(super) scanned_at: Option<Duration>,
    /// Whether a scan has completed.
    pub(super) is_scanned: bool,
    /// Everything was deleted before the first scan, so the chunks that it finds are removed.
    pub(super) purge_on_scan: bool,
    /// Whether this process may evict.
    pub(super) is_owner: bool,
    pub(super) queue: WriteQueue,
    /// End and duration of the last write.
    pub(super) last_write: (Duration, Duration),
    /// The chunk that is being written, and the bytes reserved for it.
    pub(super) saving: Option<(ChunkId, u64)>,
    /// Start of that write.
    pub(super) saving_since: Duration,
    /// The chunk that is being written was deleted, and must be removed afterwards.
    pub(super) remove_after_save: bool,
    pub(super) reading: ReadBurst,
    pub(super) removals: VecDeque<Removal>,
    /// The chunk that is being removed.
    pub(super) removing: Option<ChunkId>,
    /// Total size of the pending removals.
    pub(super) pending_removal_bytes: u64,
    pub(super) writable: WriteState,
    /// Space to free even if the tier is not full.
    pub(super) requested_bytes: Option<u64>,
    pub(super) failures: u32,
    /// Last error.
    pub(super) last_error: Option<String>,
    pub(super) unavailable_until: Option<Duration>,
    /// Times at which damaged chunks were found recently.
    pub(super) damaged_at: VecDeque<Duration>,
    /// Day since 1970, and bytes written on it.
    pub(super) written: (u64, u64),
    /// Day and bytes as stored in the index: at least those of `written`.
    pub(super) reserved: (u64, u64),
}

impl LowerTierState {
    pub(super) fn new(is_configured: bool) -> Self {
        Self {
            is_configured,
            scanned_at: None,
            is_scanned: false,
            purge_on_scan: false,
            is_owner: false,
            queue: WriteQueue::new(),
            last_write: (Duration::ZERO, Duration::ZERO),
            saving: None,
            saving_since: Duration::ZERO,
            remove_after_save: false,
            reading: ReadBurst::default(),
            removals: VecDeque::new(),
            removing: None,
            pending_removal_bytes: 0,
            writable: WriteState::Ready,
            requested_bytes: None,
            failures: 0,
            last_error: None,
            unavailable_until: None,
            damaged_at: VecDeque::new(),
            written: (0, 0),
            reserved: (0, 0),
        }
    }

    /// Returns the bytes written on the day of a time.
    pub(super) fn written_on_day_of(&self, unix_s: u64) -> u64 {
        if self.written.0 == unix_s / DAY_S { self.written.1 } else { 0 }
    }

    /// Counts bytes for the day of a time, from 0 if that day is new, and returns the sum.
    pub(super) fn add_written(&mut self, unix_s: u64, bytes: u64) -> u64 {
        self.written = (unix_s / DAY_S, self.written_on_day_of(unix_s) + bytes);
        self.written.1
    }

    /// Returns whether a chunk is queued or being written.
    pub(super) fn is_due(&self, id: &ChunkId) -> bool {
        self.queue.contains(id) || self.saving.is_some_and(|(saving, _)| saving == *id)
    }

    /// Returns whether chunks wait to be written or removed.
    pub(super) fn has_work(&self) -> bool {
        self.queue.len() > 0 || !self.removals.is_empty()
    }

    /// Returns whether a removal is running or due.
    pub(super) fn is_removing(&self) -> bool {
        let due = self.is_owner && self.removals.iter().any(|removal| removal.not_before.is_zero());
        self.removing.is_some() || self.remove_after_save || due
    }

    /// Drops the removals of chunks that another process has removed.
    pub(super) fn drop_removals(&mut self, is_gone: impl Fn(&ChunkId) -> bool) {
        self.removals.retain(|removal| !is_gone(&removal.id));
        self.pending_removal_bytes = self.removals.iter().map(|removal| removal.bytes).sum();
    }

    /// Returns the ids of all chunks to be removed.
    pub(super) fn pending_removals(&self) -> impl Iterator<Item = ChunkId> {
        let saving = self.saving.filter(|_| self.remove_after_save).map(|(id, _)| id);
        self.removals.iter().map(|removal| removal.id).chain(saving).chain(self.removing)
    }

    /// Returns the number of pending removals.
    pub(super) fn removal_count(&self) -> usize {
        self.removals.len() + usize::from(self.removing.is_some()) + usize::from(self.remove_after_save)
    }

    pub(super) fn is_writable(&self, now: Duration) -> bool {
        match self.writable {
            WriteState::Ready => true,
            WriteState::RetryAt(then) => now >= then,
            WriteState::Disabled => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_reads_are_measured_together() {
        let at = Duration::from_millis;
        let mut spell = ReadBurst::default();
        spell.begin(at(10));
        spell.begin(at(11));
        assert_eq!(spell.end(Some(5), at(30)), None, "one read is still running");
        assert_eq!(
            spell.end(Some(7), at(31)),
            Some((12, at(21))),
            "from the start of the first read to the end of the last one"
        );
        spell.begin(at(90));
        assert_eq!(spell.end(Some(3), at(95)), Some((3, at(5))), "the pause between two bursts does not count");
        spell.begin(at(100));
        assert_eq!(spell.end(None, at(900)), None, "a failed read is not measured");
    }
}
