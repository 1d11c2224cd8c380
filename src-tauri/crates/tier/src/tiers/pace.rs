//! Pace of a save while answers are generated.
//!
//! A save that computes for milliseconds at a time delays every token that is computed meanwhile, because all threads of
//! a step wait for the one that lost its core. The disk takes time of the cores and of the memory too. So a save sleeps
//! after each short part of its work, and the saves of all queued chunks together take as long as durability permits.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Inner;
use super::save::SaveAttempt;
use crate::tier::{SaveControl, TierKind};

/// Time in which the queued chunks are saved.
const QUEUE_TIME: Duration = Duration::from_secs(7);
/// A chunk that has been queued for this long is saved without sleeps. It must be saved within 10 s.
pub(super) const FAST_AGE: Duration = Duration::from_secs(8);
/// Longest save.
const MAX_SAVE: Duration = Duration::from_secs(1);
/// Longest sleep: the queue may fill, or the tiers may close, meanwhile.
const MAX_SLEEP: Duration = Duration::from_millis(50);
/// Each byte of a chunk is encoded, checked and written.
const PASSES: u32 = 3;

impl Inner {
    /// Returns the time that a save of a chunk should take which was queued at `queued_at`. Zero: as little as possible.
    pub(super) fn save_time(&self, tier: TierKind, queued_at: Duration, payload_bytes: u64) -> Duration {
        let is_answering = self.active_generations.load(Ordering::Relaxed) > 0;
        if tier != TierKind::Ssd || !is_answering || self.clock.now() >= queued_at.saturating_add(FAST_AGE) {
            return Duration::ZERO;
        }
        let state = self.lock();
        if state.closing.is_some() || state.is_queue_nearly_full(&self.config, tier) {
            return Duration::ZERO;
        }
        let queued_bytes = payload_bytes + state.lower(tier).queue.bytes();
        QUEUE_TIME.mul_f64(payload_bytes as f64 / queued_bytes.max(1) as f64).min(MAX_SAVE)
    }
}

/// Control of an attempt to save a chunk. The work is spread over `save_time`.
pub(super) struct PacedSave<'a> {
    attempt: &'a SaveAttempt,
    payload_bytes: u64,
    save_time: &'a dyn Fn() -> Duration,
    began: Instant,
    done_bytes: Cell<u64>,
}

impl<'a> PacedSave<'a> {
    pub(super) fn new(attempt: &'a SaveAttempt, payload_bytes: u64, save_time: &'a dyn Fn() -> Duration) -> Self {
        Self { attempt, payload_bytes, save_time, began: Instant::now(), done_bytes: Cell::new(0) }
    }
}

impl SaveControl for PacedSave<'_> {
    fn may_publish(&self) -> bool {
        self.attempt.begin_publish()
    }

    fn after_part(&self, bytes: usize) {
        self.done_bytes.set(self.done_bytes.get() + bytes as u64);
        if self.attempt.is_abandoned() {
            return;
        }
        let all_bytes = self.payload_bytes.max(1) * u64::from(PASSES);
        let share = (self.done_bytes.get() as f64 / all_bytes as f64).min(1.0);
        let early = (self.save_time)().mul_f64(share).saturating_sub(self.began.elapsed());
        std::thread::sleep(early.min(MAX_SLEEP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn save_sleeps_until_its_time_is_over() {
        const SAVE_TIME: Duration = Duration::from_millis(20);
        let attempt = SaveAttempt::default();
        let save_time = || SAVE_TIME;
        let save = PacedSave::new(&attempt, 1 << 20, &save_time);
        for _ in 0..PASSES {
            save.after_part(1 << 20);
        }
        assert!(save.began.elapsed() >= SAVE_TIME, "it took {:?}", save.began.elapsed());
        assert!(save.may_publish(), "the only attempt publishes");
    }

    #[test]
    fn abandoned_save_does_not_sleep() {
        let attempt = SaveAttempt::default();
        assert!(attempt.abandon(), "it has not begun to publish");
        let save = PacedSave::new(&attempt, 1, &|| panic!("its time does not matter"));
        save.after_part(1);
        assert!(!save.may_publish(), "another attempt publishes");
    }
}
