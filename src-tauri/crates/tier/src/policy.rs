//! Eviction policies: which chunk leaves a full tier first, and which chunks are written to a lower tier.

use std::time::Duration;

use crate::tier::TierKind;

/// Half-life of a hit's weight.
const HALF_LIFE: Duration = Duration::from_secs(6 * 3600);

/// Only reuse after this pause counts as a return: quick reuse usually belongs to one conversation that then ends.
pub(crate) const RETURN_PAUSE: Duration = Duration::from_secs(30 * 60);

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

    fn should_write(&self, stats: &ChunkStats, _place: TierKind) -> bool {
        stats.hits > 0 || stats.owned || stats.pinned
    }
}
