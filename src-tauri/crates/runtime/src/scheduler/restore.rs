//! Restores rows from the tiers, and flushes rows to them before a model unloads.

use std::time::{Duration, Instant};

use cairn_kv::{RecomputeReason, RecomputedTokens, Restore, RestoreEnd, RestorePoll};

use super::Scheduler;
use crate::sequence::{LateTokens, Sequence};

/// Timeout for the flush of an unloaded model. The model's next load waits for the flush.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

impl Scheduler {
    /// Starts to restore a sequence's rows that are in tiers and not in pages, if that is faster than computing them.
    pub(super) fn begin_restore(&mut self, sequence: &mut Sequence) {
        let lookup = self.cache.begin_restore(sequence.seq, sequence.keys());
        self.count_recomputed(sequence, lookup.recomputed);
        sequence.restore = lookup.restore;
        if sequence.is_restoring() {
            sequence.resume(sequence.seq, self.cache.len(sequence.seq));
        }
    }

    /// Takes at most one restored chunk for each sequence, so that running answers wait for one chunk at most.
    pub(super) fn poll_restores(&mut self, active: &mut [Sequence]) {
        for sequence in active {
            self.restore_late_tokens(sequence);
            let Some(mut restore) = sequence.restore.take() else { continue };
            match self.cache.poll_restore(self.backend.as_mut(), sequence.seq, sequence.keys(), &mut restore) {
                RestorePoll::Pending => {
                    sequence.restore = Some(restore);
                    continue;
                }
                RestorePoll::Tokens(tokens, place) => {
                    let new_tokens = sequence.add_restored(tokens, place);
                    self.counters.count(|metrics| metrics.restored_tokens[place as usize] += new_tokens as u64);
                    sequence.restore = Some(restore);
                }
                ended => self.end_restore(sequence, &restore, &ended),
            }
            self.has_changed = true;
        }
    }

    /// Checks after each step whether late tokens have reached a local tier, and restores them from there.
    fn restore_late_tokens(&mut self, sequence: &mut Sequence) {
        let computed = sequence.computed();
        let Some(late) = &mut sequence.late else { return };
        if sequence.restore.is_some() || computed == late.checked_at {
            return;
        }
        late.checked_at = computed;
        let restore = match sequence.pending().len() {
            0 | 1 => None,
            _ => self.cache.begin_local_restore(sequence.seq, sequence.keys()),
        };
        if let Some(restore) = restore {
            sequence.restore = Some(restore);
            sequence.resume(sequence.seq, self.cache.len(sequence.seq));
        }
    }

    /// Counts a prompt's late tokens as recomputed once the whole prompt is computed.
    pub(super) fn finish_prefill(&self, sequence: &mut Sequence) {
        if let Some(late) = sequence.late.take() {
            self.count_recomputed(sequence, RecomputedTokens::new(RecomputeReason::Deadline, late.tokens));
        }
    }

    /// Counts the result of a restore. Tokens that were not restored will be computed.
    fn end_restore(&mut self, sequence: &mut Sequence, restore: &Restore, ended: &RestorePoll) {
        let (outcome, choice) = (self.cache.restore_outcome(sequence.seq, restore), restore.choice());
        if let Some(slowest) = outcome.slowest {
            sequence.add_recompute_time(outcome.recompute);
            self.counters.count(|metrics| metrics.add_restore(slowest, outcome.took, outcome.recompute));
        }
        if let Some(late) = &mut sequence.late {
            late.tokens = late.tokens.saturating_sub(outcome.restored_tokens);
        }
        let Some(reason) = ended.recompute_reason() else { return };
        match ended {
            RestorePoll::Ended(RestoreEnd::NoResponse) => {
                sequence.late = Some(LateTokens { tokens: outcome.missing_tokens, checked_at: sequence.computed() });
            }
            // These are among the late tokens, which may still be restored.
            _ if sequence.late.is_some() => {}
            _ => self.count_recomputed(sequence, RecomputedTokens::new(reason, outcome.missing_tokens)),
        }
        tracing::info!(
            reason = reason.name(),
            end = ?ended,
            restored_tokens = outcome.restored_tokens,
            missing_tokens = outcome.missing_tokens,
            took_ms = outcome.took.as_millis() as u64,
            expected_ms = choice.restore.as_millis() as u64,
            allowed_ms = choice.timeout.as_millis() as u64,
            "restore ended early: computing the rest of the prompt"
        );
    }

    /// Counts tokens that are computed although they were looked up.
    fn count_recomputed(&self, sequence: &mut Sequence, tokens: RecomputedTokens) {
        if sequence.add_recomputed(tokens) {
            self.counters.count(|metrics| metrics.recomputed += tokens);
        }
    }

    /// Flushes all rows to the tiers before the model unloads.
    pub(super) fn flush_all(&mut self) {
        let until = Instant::now() + FLUSH_TIMEOUT;
        let wait = || {
            std::thread::sleep(Duration::from_millis(5));
            Instant::now() < until
        };
        self.cache.flush_all(self.backend.as_ref(), wait);
    }
}
