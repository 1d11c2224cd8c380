//! What was computed before and has left the page pool: how it comes back, and how it is kept when a model goes.

use std::time::{Duration, Instant};

use cairn_kv::Recalled;

use super::Scheduler;
use crate::sequence::Sequence;

/// Fewer tokens than this are computed sooner than they are looked for.
const MIN_TOKENS: usize = 64;
/// How long a recall may take, whatever it brings.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long an unloaded model may take to hand over what it has computed, and its next load waits for that.
pub(crate) const HAND_OVER: Duration = Duration::from_secs(2);

impl Scheduler {
    /// Begins to bring back what the tiers have of a sequence beyond its pages.
    pub(super) fn recall(&mut self, sequence: &mut Sequence) {
        let patience = |have: usize, end: usize| {
            let tokens = end - have;
            (tokens >= MIN_TOKENS).then(|| PATIENCE + Duration::from_millis(tokens as u64))
        };
        sequence.recall = self.cache.recall(sequence.seq, sequence.history(), patience);
        if sequence.recalling() {
            sequence.resume(sequence.seq, self.cache.len(sequence.seq));
        }
    }

    /// Takes in what has arrived: a chunk for each sequence, so that running answers wait for one at most.
    pub(super) fn absorb(&mut self, active: &mut [Sequence]) {
        for sequence in active {
            let Some(mut recall) = sequence.recall.take() else { continue };
            match self.cache.absorb(self.backend.as_mut(), sequence.seq, sequence.history(), &mut recall) {
                Recalled::Tokens(tokens, place) => sequence.recalled(tokens, place),
                Recalled::Waiting => {}
                Recalled::Ended(cairn_kv::End::Complete) => continue,
                Recalled::Ended(end) => {
                    tracing::info!(?end, "a recall ended early: the rest of the prompt is computed");
                    continue;
                }
                Recalled::NoPages(error) => {
                    tracing::warn!(%error, "a recall found no pages: the rest of the prompt is computed");
                    continue;
                }
                Recalled::Misfit => {
                    tracing::warn!("a kept chunk does not fit this model: the rest of the prompt is computed");
                    continue;
                }
            }
            sequence.recall = Some(recall);
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
