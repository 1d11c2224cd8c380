//! What was computed before and has left the page pool: how it comes back, and how it is kept when a model goes.

use std::time::{Duration, Instant};

use cairn_kv::{Because, End, Recall, Recalled, Recomputed};

use super::Scheduler;
use crate::sequence::{Late, Sequence};

/// How long an unloaded model may take to hand over what it has computed, and its next load waits for that.
pub(crate) const HAND_OVER: Duration = Duration::from_secs(2);

impl Scheduler {
    /// Begins to bring back what the tiers have of a sequence beyond its pages, where that pays.
    pub(super) fn recall(&mut self, sequence: &mut Sequence) {
        let lookup = self.cache.recall(sequence.seq, sequence.history());
        self.recomputed(sequence, lookup.recomputed);
        sequence.recall = lookup.recall;
        if sequence.recalling() {
            sequence.resume(sequence.seq, self.cache.len(sequence.seq));
        }
    }

    /// Takes in what has arrived: a chunk for each sequence, so that running answers wait for one at most.
    pub(super) fn absorb(&mut self, active: &mut [Sequence]) {
        for sequence in active {
            self.catch_up(sequence);
            let Some(mut recall) = sequence.recall.take() else { continue };
            match self.cache.absorb(self.backend.as_mut(), sequence.seq, sequence.history(), &mut recall) {
                Recalled::Tokens(tokens, place) => {
                    let news = sequence.recalled(tokens, place);
                    self.counters.count(|usage| usage.restored_tokens[place as usize] += news as u64);
                    sequence.recall = Some(recall);
                }
                Recalled::Waiting => sequence.recall = Some(recall),
                ended => self.end_recall(sequence, &recall, &ended),
            }
        }
    }

    /// Looks after each step whether what was too slow has come nearer meanwhile, and goes on with it.
    fn catch_up(&mut self, sequence: &mut Sequence) {
        let computed = sequence.computed();
        let Some(late) = &mut sequence.late else { return };
        if sequence.recall.is_some() || computed == late.looked_at {
            return;
        }
        late.looked_at = computed;
        let recall = match sequence.pending().len() {
            0 | 1 => None,
            _ => self.cache.recall_near(sequence.seq, sequence.history()),
        };
        if let Some(recall) = recall {
            sequence.recall = Some(recall);
            sequence.resume(sequence.seq, self.cache.len(sequence.seq));
        }
    }

    /// Takes note, once a prompt has been computed to its end, of what was too slow for it.
    pub(super) fn prefilled(&self, sequence: &mut Sequence) {
        if let Some(late) = sequence.late.take() {
            self.recomputed(sequence, Recomputed::of(Because::Deadline, late.tokens));
        }
    }

    /// Says what came of a recall. What did not come is computed.
    fn end_recall(&mut self, sequence: &mut Sequence, recall: &Recall, ended: &Recalled) {
        let (outcome, choice) = (self.cache.outcome(sequence.seq, recall), recall.choice());
        if let Some(farthest) = outcome.farthest {
            sequence.spared(outcome.recompute);
            self.counters.count(|usage| usage.restored(farthest, outcome.took, outcome.recompute));
        }
        if let Some(late) = &mut sequence.late {
            late.tokens = late.tokens.saturating_sub(outcome.tokens);
        }
        let Some(because) = ended.because() else { return };
        match ended {
            Recalled::Ended(End::Silence) => {
                sequence.late = Some(Late { tokens: outcome.left, looked_at: sequence.computed() });
            }
            // These were among those that may still come.
            _ if sequence.late.is_some() => {}
            _ => self.recomputed(sequence, Recomputed::of(because, outcome.left)),
        }
        tracing::info!(
            because = because.name(),
            how = ?ended,
            came_tokens = outcome.tokens,
            left_tokens = outcome.left,
            took_ms = outcome.took.as_millis() as u64,
            expected_ms = choice.restore.as_millis() as u64,
            allowed_ms = choice.within.as_millis() as u64,
            "a recall ended early: the rest of the prompt is computed"
        );
    }

    /// Counts tokens that are computed although they were looked for.
    fn recomputed(&self, sequence: &mut Sequence, tokens: Recomputed) {
        if sequence.recomputed(tokens) {
            self.counters.count(|usage| usage.recomputed += tokens);
        }
    }

    /// Gives all that was computed to the tiers, for when the model is loaded again.
    pub(super) fn hand_over(&mut self) {
        let until = Instant::now() + HAND_OVER;
        let wait = || {
            std::thread::sleep(Duration::from_millis(5));
            Instant::now() < until
        };
        self.cache.keep_all(self.backend.as_ref(), wait);
    }
}
