//! What leaves a full place first: what was used longest ago, aged a little by what it is worth.
//!
//! Chunks leave in the order of their last use, leaves first. One that saves more time for its bytes, or was of use more often
//! lately, counts as used a little later than it was: each doubling is worth [`LATER`] of a turnover of all that is kept, so chunks
//! that were never used again go before their like that were. The lift is small on purpose: prompts of one person come back
//! soon or not at all, and a frequency that weighs more keeps what was once loved over what is in use
//! (`policy/tests.rs` measures it against plain recency and against the future).
//!
//! Ranks never change by the mere passing of time, since both sides of a comparison would age alike.

#[cfg(test)]
mod replay;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trace;

use crate::tier::Place;
use crate::worth::{Facts, LeastRecent, Worth};

/// What a doubling of worth counts for, as a part of the chunks that are kept.
const LATER: f64 = 0.07;
/// So few chunks are one long prompt or two, and recency alone decides what is left of them.
const FEW: usize = 320;
/// What computing again usually takes, in seconds per byte: 10 ms for a token of 128 KiB.
const USUAL_S_PER_BYTE: f64 = 0.01 / (128.0 * 1024.0);
/// Doublings that the saved time may count for, either way.
const MOST: f64 = 8.0;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aged;

impl Worth for Aged {
    fn rank(&self, facts: &Facts) -> u64 {
        let saved = facts.recompute.as_secs_f64() / facts.bytes.max(1) as f64 / USUAL_S_PER_BYTE;
        // Where nobody knows what computing takes, it is the usual.
        let saved = if saved > 0.0 { saved.log2().clamp(-MOST, MOST) } else { 0.0 };
        let turnover = facts.kept.saturating_sub(FEW) as f64;
        let lift = LATER * turnover * (saved + (1.0 + facts.warmth).log2());
        facts.last_use.saturating_add_signed(lift as i64)
    }

    /// A disk wears: most of what a conversation computes is used again within it, from RAM, and never afterwards. What lies on the
    /// disk already has paid for that.
    fn deserves(&self, facts: &Facts, place: Place) -> bool {
        match place {
            Place::Ssd => facts.returns > 0 || facts.owned || facts.pinned,
            Place::Ram | Place::Remote => LeastRecent.deserves(facts, place),
        }
    }
}
