//! A running restore: its chunks, and the deadlines of its reader.

use std::sync::Arc;
use std::time::Duration;

use crate::chunk::{Chunk, ChunkHead, ChunkId};
use crate::coverage::ReadRequest;
use crate::tier::{ChunkRequest, Miss, TierKind};

/// Maximum number of chunks of one restore that are being read or ready.
const READ_AHEAD: usize = 4;
/// Maximum wait for a remote tier's response before the reader computes instead.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(60);

/// Callback that wakes a waiting thread. Must not block.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A chunk that was compared with its request. Only this comparison creates one.
#[derive(Clone, Debug)]
pub struct RestoredChunk {
    pub(super) chunk: Chunk,
    pub(super) rows: usize,
    pub(super) tier: TierKind,
}

impl RestoredChunk {
    /// Compares a chunk with a request: id, parent, position, keys, arithmetic, size.
    pub(super) fn verify(chunk: Chunk, wanted: &ChunkRequest<'_>, tier: TierKind) -> Result<Self, Miss> {
        wanted.check(&chunk.head)?;
        if chunk.head.payload_bytes() != chunk.payload.len() as u64 {
            return Err(Miss::Mismatch("the chunk's payload has another length than its head says"));
        }
        Ok(Self { rows: wanted.keys.len(), chunk, tier })
    }

    /// Returns the chunk's metadata.
    pub fn head(&self) -> &ChunkHead {
        &self.chunk.head
    }

    /// Returns the rows. Only those of the first [`RestoredChunk::rows`] tokens match the request.
    pub fn payload(&self) -> &[u8] {
        &self.chunk.payload
    }

    /// Returns the number of tokens that match the request.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the tier that the chunk came from.
    pub fn tier(&self) -> TierKind {
        self.tier
    }
}

/// Reason why a restore ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreEnd {
    /// All chunks were restored.
    Complete,
    /// The next chunk could not be loaded.
    Missed(Miss),
    /// The next chunk did not arrive in time.
    Deadline,
    /// The tier did not respond in time. Chunks that still arrive go to RAM, where the reader may find them later.
    NoResponse,
    /// The tiers are shutting down.
    Closed,
}

/// State of one chunk of a restore.
#[derive(Debug)]
pub(super) enum Slot {
    /// To be read from this tier.
    Due(TierKind),
    /// Being read from this tier, since this time.
    Reading(TierKind, Duration),
    Ready(RestoredChunk),
    Missed(Miss),
    Taken,
}

/// A running restore or prefetch.
pub(super) struct RestoreJob {
    pub(super) requests: Vec<ReadRequest>,
    pub(super) slots: Vec<Slot>,
    /// Number of slots that were taken.
    pub(super) taken: usize,
    /// Deadline. It moves while all slots that may be read ahead are ready, since the tier causes no wait then.
    pub(super) deadline: Duration,
    /// Start of that state.
    pub(super) ready_since: Option<Duration>,
    /// Time when the last slot was taken, or the restore began.
    pub(super) took_at: Duration,
    /// Deadline of the first chunk.
    pub(super) first_by: Duration,
    pub(super) ended: Option<RestoreEnd>,
    /// A prefetch: no reader takes the chunks, which go to RAM.
    pub(super) is_prefetch: bool,
    /// Wakes the reader.
    pub(super) waker: Option<Waker>,
}

impl RestoreJob {
    /// Wakes the reader: a slot is ready or missed, or the tiers are closing.
    pub(super) fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker();
        }
    }

    /// Until when [`super::Restore::try_next`] may return [`super::RestorePoll::Pending`] if no chunk arrives.
    pub(super) fn next_deadline(&self) -> Duration {
        let first_by = if self.taken == 0 { self.first_by } else { Duration::MAX };
        let response_by = self.response_window().map_or(Duration::MAX, |(_, by)| by);
        self.deadline.min(first_by).min(response_by)
    }

    /// Removes a deleted chunk, and returns its rows if they were ready.
    pub(super) fn forget(&mut self, id: &ChunkId) -> Option<Chunk> {
        let index = self.requests.iter().position(|request| request.step.id == *id)?;
        let slot = &mut self.slots[index];
        match slot {
            Slot::Taken => None,
            _ => match std::mem::replace(slot, Slot::Missed(Miss::Absent)) {
                Slot::Ready(restored) => Some(restored.chunk),
                _ => {
                    self.wake();
                    None
                }
            },
        }
    }

    /// Returns when a remote tier was asked for the next slot, and until when it must respond. `None` if the next slot
    /// is in another tier. A reader without deadline also waits for the response without limit.
    pub(super) fn response_window(&self) -> Option<(Duration, Duration)> {
        let asked_at = match self.slots.get(self.taken)? {
            Slot::Due(TierKind::Remote) => self.took_at,
            // The read may have started ahead of time.
            Slot::Reading(TierKind::Remote, since) => self.took_at.min(*since),
            _ => return None,
        };
        let by =
            if self.deadline == Duration::MAX { Duration::MAX } else { self.took_at.saturating_add(RESPONSE_TIMEOUT) };
        Some((asked_at, if self.taken == 0 { by.min(self.first_by) } else { by }))
    }

    /// Updates the start of the state in which the tier causes no wait.
    pub(super) fn update_ready_since(&mut self, now: Duration) {
        let ahead = self.slots.iter().skip(self.taken).take(READ_AHEAD);
        if !ahead.into_iter().all(|slot| matches!(slot, Slot::Ready(_))) {
            self.ready_since = None;
        } else if self.ready_since.is_none() {
            self.ready_since = Some(now);
        }
    }

    /// Records that the next slot was taken.
    pub(super) fn advance(&mut self, now: Duration) {
        if let Some(since) = self.ready_since.take() {
            self.deadline = self.deadline.saturating_add(now.saturating_sub(since));
        }
        self.took_at = now;
        self.taken += 1;
        self.update_ready_since(now);
    }

    /// Returns the first slot to read from `tier` now.
    pub(super) fn next_due(&self, tier: TierKind) -> Option<usize> {
        let ahead = self.slots.iter().enumerate().skip(self.taken).take(READ_AHEAD);
        let mut reachable = ahead.take_while(|(_, slot)| !matches!(slot, Slot::Missed(_)));
        reachable.find(|(_, slot)| matches!(slot, Slot::Due(from) if *from == tier)).map(|(index, _)| index)
    }
}
