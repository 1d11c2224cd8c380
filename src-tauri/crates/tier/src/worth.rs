//! What a chunk is worth: which goes first when a place is full, and which is worth being written further down.

use std::time::Duration;

use crate::tier::Place;

/// How long it takes until a hit counts half.
const HALF_LIFE: Duration = Duration::from_secs(6 * 3600);

/// Who comes back after this long comes back to something: what was used again at once may be of one conversation that then ends.
pub(crate) const PAUSE: Duration = Duration::from_secs(30 * 60);

/// What is left of `warmth` after some time.
pub(crate) fn cooled(warmth: f64, after: Duration) -> f64 {
    warmth * (-after.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2()
}

/// What is known of a chunk's use.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Counts uses of all chunks: the higher, the later this one was used. No clock can turn it back.
    pub last_use: u64,
    /// The time of the last use, by the passed-in clock.
    pub last_use_at: Duration,
    /// How often it was brought back, or its rows were used where they still lay.
    pub hits: u32,
    /// Hits that came after a pause of half an hour or longer.
    pub returns: u32,
    /// Hits, of which half are forgotten every six hours, as of the last use.
    pub warmth: f64,
    /// How many chunks are kept in all, so that a policy can tell what is long ago.
    pub kept: usize,
    /// Bytes of its rows.
    pub bytes: u64,
    /// What computing it again would take.
    pub recompute: Duration,
    /// Whether somebody owns it: a chat or a client that may come back.
    pub owned: bool,
    /// Whether it is pinned.
    pub pinned: bool,
}

/// Judges chunks. Called with a lock held, so it only computes.
pub trait Worth: Send + Sync {
    /// The order in which chunks leave a place, lowest first. Asked anew after each use. Chunks that others continue stay longer in
    /// any case.
    fn rank(&self, facts: &Facts) -> u64;

    /// Whether a chunk that is idle, or about to leave the place above, is worth being written to this place.
    fn deserves(&self, facts: &Facts, place: Place) -> bool;
}

/// The plain one: what was used longest ago goes first, and what nobody owns must have been used twice to be written, so that
/// prompts sent once do not wear the disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastRecent;

impl Worth for LeastRecent {
    fn rank(&self, facts: &Facts) -> u64 {
        facts.last_use
    }

    fn deserves(&self, facts: &Facts, _place: Place) -> bool {
        facts.hits > 0 || facts.owned || facts.pinned
    }
}
