//! Ends the generations that keep a model loaded for too long when another model needs room.

use std::time::{Duration, Instant};

use super::{Scheduler, Waiting};
use crate::command::DrainLimits;
use crate::request::{Displaced, Event, GenerateError};
use crate::sequence::Sequence;

impl Scheduler {
    /// Fails a generation after its client has read nothing for too long, and all generations after the deadline.
    pub(super) fn enforce_drain_limits(&mut self, active: &mut Vec<Sequence>) {
        let Some(limits) = self.drain_limits else { return };
        let now = Instant::now();
        for ended in active.extract_if(.., |sequence| fail_if_displaced(sequence, &limits, now)) {
            self.cache.close(ended.seq);
            self.is_crowded = false;
            self.has_changed = true;
        }
        let before = self.waiting.len();
        self.waiting.retain_mut(|waiting| match waiting {
            Waiting::New(job) if now >= limits.deadline => {
                job.events.end(Event::Error(GenerateError::Displaced(Displaced::Late)));
                false
            }
            Waiting::New(_) => true,
            Waiting::Paused(sequence) => !fail_if_displaced(sequence, &limits, now),
        });
        self.has_changed |= self.waiting.len() < before;
    }

    /// Time until a generation reaches a limit, if none of their clients reads.
    pub(super) fn drain_timeout(&self, active: &[Sequence]) -> Option<Duration> {
        let limits = self.drain_limits?;
        let unread = self.sequences(active).filter_map(Sequence::watched_unread_since).min();
        let unread = unread.and_then(|since| since.checked_add(limits.unread));
        let has_generations = !active.is_empty() || !self.waiting.is_empty();
        let next = unread.into_iter().chain(has_generations.then_some(limits.deadline)).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }
}

/// Fails a sequence that has reached a limit. Returns whether it has.
fn fail_if_displaced(sequence: &mut Sequence, limits: &DrainLimits, now: Instant) -> bool {
    let unread = sequence.unread_since(now).map(|since| now.saturating_duration_since(since));
    let reason = match unread {
        _ if now >= limits.deadline => Displaced::Late,
        Some(time) if time >= limits.unread => Displaced::Unread(limits.unread),
        _ => return false,
    };
    tracing::info!(%reason, "answer ended to make room for another model");
    sequence.fail(GenerateError::Displaced(reason));
    true
}
