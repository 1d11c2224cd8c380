//! LRU eviction, slightly weighted by the value of a chunk.
//!
//! Chunks are evicted in the order of their last use, chunks without continuations first. A chunk that saves more time
//! per byte, or that had more recent hits, counts as used a little later: each doubling shifts it by [`SHIFT_PER_DOUBLING`] of all
//! stored chunks. The shift is small on purpose: prompts of one user are reused soon or never, and a larger weight of
//! frequency would keep formerly popular chunks instead of those in use. `tests/simulations/weighted_lru.rs` compares it with
//! plain LRU and with the optimum.
//!
//! Ranks do not change with time alone, since that would shift all chunks equally.

#[cfg(test)]
#[path = "../tests/simulations/weighted_lru.rs"]
mod simulation;

use crate::policy::{ChunkStats, EvictionPolicy, LeastRecentlyUsed};
use crate::tier::TierKind;

/// Shift per doubling of the value, as a share of all stored chunks.
const SHIFT_PER_DOUBLING: f64 = 0.07;
/// With so few chunks (one or two long prompts) only recency counts.
const MIN_CHUNKS: usize = 320;
/// Typical recompute time in seconds per byte: 10 ms for a token of 128 KiB.
const TYPICAL_S_PER_BYTE: f64 = 0.01 / (128.0 * 1024.0);
/// Maximum number of doublings, either way, that the saved time may count for.
const MAX_DOUBLINGS: f64 = 8.0;

/// Eviction policy: LRU, slightly weighted by a chunk's value and recent hits.
#[derive(Clone, Copy, Debug, Default)]
pub struct WeightedLru;

impl EvictionPolicy for WeightedLru {
    fn rank(&self, stats: &ChunkStats) -> u64 {
        let saved = stats.recompute.as_secs_f64() / stats.bytes.max(1) as f64 / TYPICAL_S_PER_BYTE;
        // An unknown recompute time counts as typical.
        let saved = if saved > 0.0 { saved.log2().clamp(-MAX_DOUBLINGS, MAX_DOUBLINGS) } else { 0.0 };
        let turnover = stats.stored_chunks.saturating_sub(MIN_CHUNKS) as f64;
        let lift = SHIFT_PER_DOUBLING * turnover * (saved + (1.0 + stats.warmth).log2());
        stats.last_use.saturating_add_signed(lift as i64)
    }

    /// Most rows of a conversation are reused from RAM within the conversation and never later, so writing them would
    /// only wear the disk. For chunks that the SSD already has, that cost is paid.
    fn should_write(&self, stats: &ChunkStats, tier: TierKind) -> bool {
        match tier {
            TierKind::Ssd => stats.returns > 0 || stats.owned || stats.pinned,
            TierKind::Ram | TierKind::Remote => LeastRecentlyUsed.should_write(stats, tier),
        }
    }
}
