//! Making space in full contexts, so that answers can go on.

use std::sync::mpsc::{Receiver, TryRecvError};

use super::Scheduler;
use crate::full::Filled;
use crate::sequence::Sequence;

impl Scheduler {
    /// Lets those answers go on for which there is space now, and ends those for which there will be none.
    pub(super) fn make_space(&mut self, active: &mut Vec<Sequence>) {
        let mut index = 0;
        while let Some(sequence) = active.get_mut(index) {
            let stays = match sequence.full.take() {
                None => true,
                Some(Filled::Shifts(keep_tokens)) => self.shift(sequence, keep_tokens),
                Some(Filled::Waits(replies)) => self.restart(sequence, replies),
            };
            if stays {
                index += 1;
                continue;
            }
            let mut ended = active.remove(index);
            ended.end_full();
            self.cache.close(ended.seq);
            self.crowded = false;
        }
    }

    /// Forgets a part of a sequence. Where that cannot be done, a shorter prompt is asked for, if one may be. Returns whether the answer
    /// may go on.
    fn shift(&mut self, sequence: &mut Sequence, keep_tokens: usize) -> bool {
        let shifted = match &self.rotation {
            Ok(rotation) => self
                .cache
                .shift(self.backend.as_mut(), sequence.seq, keep_tokens, rotation)
                .map_err(|error| error.to_string()),
            Err(fixed) => Err(fixed.to_string()),
        };
        match shifted {
            Ok(gone) => {
                tracing::info!(tokens = gone.len(), after = gone.start, "context full: rows were moved");
                sequence.forget(gone);
                true
            }
            Err(why) => {
                tracing::warn!(why, "context full, and rows cannot be moved");
                sequence.ask()
            }
        }
    }

    /// Goes on with a shorter prompt if it has come. Returns whether the answer may go on.
    fn restart(&mut self, sequence: &mut Sequence, replies: Receiver<Vec<u32>>) -> bool {
        let prompt = match replies.try_recv() {
            Ok(prompt) => prompt,
            Err(TryRecvError::Empty) => {
                sequence.full = Some(Filled::Waits(replies));
                return true;
            }
            Err(TryRecvError::Disconnected) => return false,
        };
        let known = prompt.iter().all(|&token| (token as usize) < self.vocabulary);
        if !known || !sequence.replace(prompt) {
            return false;
        }
        // The old rows stay cached as what they are; of the new ones those up to the first turn that went are found.
        self.cache.close(sequence.seq);
        let (seq, cached) = self.cache.open_for(sequence.history(), sequence.whose());
        sequence.reopen(seq, cached);
        self.recall(sequence);
        true
    }
}
