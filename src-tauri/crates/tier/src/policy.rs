//! Eviction policies: which chunk leaves a full tier first, and which chunks are written to a lower tier.

use std::time::Duration;

use crate::tier::TierKind;

/// Half-life of a hit's weight.
const HALF_LIFE: Duration = Duration::from_secs(6 * 3600);

/// Only reuse after this pause counts as a return: quick reuse usually belongs to one conversation that then ends.
pub(crate) const RETURN_PAUSE: Duration = Duration::from_secs(30 * 60);

/// A prefix that takes at least this long to compute is worth a write after its first use.
///
/// The time is that of the whole prefix up to the end of a chunk, not of the chunk: a restart loses all chunks of a
/// prefix together, and a user then waits for all of them. A chunk is written after the chunks before it, so a prefix
/// is written completely or, if it is short, not at all.
pub const LONG_RECOMPUTE: Duration = Duration::from_secs(2);

/// Returns `warmth` after it decayed for some time.
pub(crate) fn cooled(warmth: f64, after: Duration) -> f64 {
    warmth * (-after.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2()
}

/// Usage statistics of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct ChunkStats {
    /// Global use counter at the last use: higher means more recent. Unlike a clock it never goes back.
    pub last_use: u64,
    /// Time of the last use, by the injected clock.
    pub last_use_at: Duration,
    /// Number of restores and of uses in pages.
    pub hits: u32,
    /// Hits after a pause of at least half an hour.
    pub returns: u32,
    /// Decayed number of hits at the last use; the half-life is six hours.
    pub warmth: f64,
    /// Number of all stored chunks. A policy scales recency by it.
    pub stored_chunks: usize,
    /// Size of the rows.
    pub bytes: u64,
    /// Estimated time to recompute the rows.
    pub recompute: Duration,
    /// Whether the chunk has an owner, such as a chat or a client that may return.
    pub owned: bool,
    /// Whether the chunk is pinned.
    pub pinned: bool,
}

/// Reason to write a chunk before its first reuse after a pause, so that it survives a crash. Weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WriteClaim {
    /// A short prefix that was used once.
    None,
    /// A prefix that was used once and takes long to compute. Most such prefixes are never used again.
    Expensive,
    /// The prefix was used again, or continues one that was, or has an owner or a pin.
    Reused,
}

impl WriteClaim {
    /// Returns the claim of a chunk with a prefix that takes `prefix_recompute` to compute.
    pub(crate) fn of(stats: &ChunkStats, prefix_recompute: Duration) -> Self {
        if stats.hits > 0 || stats.owned || stats.pinned {
            Self::Reused
        } else if prefix_recompute >= LONG_RECOMPUTE {
            Self::Expensive
        } else {
            Self::None
        }
    }

    /// Returns the claim of a chunk that continues one with the claim `before`.
    pub(crate) fn or_continues(self, before: impl FnOnce() -> Option<Self>) -> Self {
        if self < Self::Reused && before() == Some(Self::Reused) { Self::Reused } else { self }
    }

    /// Returns the share of a daily allowance up to which chunks with this claim are written. Prompts that are sent
    /// once must not use up what the others need.
    pub(crate) fn share_of(self, bytes: u64) -> u64 {
        match self {
            Self::None => 0,
            Self::Expensive => bytes / 2,
            Self::Reused => bytes,
        }
    }
}

/// Rates chunks. Called with a lock held, so implementations only compute.
pub trait EvictionPolicy: Send + Sync {
    /// Returns the eviction rank; the lowest rank is evicted first. Recomputed after each use. A chunk is never
    /// evicted before the chunks that continue it.
    fn rank(&self, stats: &ChunkStats) -> u64;

    /// Returns whether a chunk that is idle or about to be evicted should be written to `tier`.
    fn should_write(&self, stats: &ChunkStats, tier: TierKind) -> bool;
}

/// Plain LRU. A chunk without an owner is written only after a second use, so that one-shot prompts do not wear the
/// disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastRecentlyUsed;

impl EvictionPolicy for LeastRecentlyUsed {
    fn rank(&self, stats: &ChunkStats) -> u64 {
        stats.last_use
    }

    fn should_write(&self, stats: &ChunkStats, _tier: TierKind) -> bool {
        stats.hits > 0 || stats.owned || stats.pinned
    }
}
