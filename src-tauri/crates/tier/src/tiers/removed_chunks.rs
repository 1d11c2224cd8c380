//! Chunks that were removed recently, with the reasons.

use std::collections::{HashMap, VecDeque};

use crate::chunk::ChunkId;

/// Number of removed chunks whose reason is remembered.
const MAX_REMOVED_CHUNKS: usize = 16 << 10;

/// Reason why a chunk left a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// Evicted to make room.
    Evicted,
    /// Unused for longer than the TTL.
    Expired,
    /// Deleted by the user.
    Deleted,
    /// Replaced by rows of another arithmetic.
    Replaced,
    /// Damaged.
    Damaged,
    /// Listed but missing.
    Lost,
}

impl RemovalReason {
    /// Number of reasons.
    pub const COUNT: usize = 6;
}

/// Recently removed chunks, with reasons.
#[derive(Debug, Default)]
pub(super) struct RemovedChunks {
    order: VecDeque<ChunkId>,
    why: HashMap<ChunkId, RemovalReason>,
}

impl RemovedChunks {
    pub(super) fn add(&mut self, id: ChunkId, why: RemovalReason) {
        if self.why.insert(id, why).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > MAX_REMOVED_CHUNKS
            && let Some(oldest) = self.order.pop_front()
        {
            self.why.remove(&oldest);
        }
    }

    /// Returns why a chunk was removed.
    pub(super) fn reason(&self, id: &ChunkId) -> Option<RemovalReason> {
        self.why.get(id).copied()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
