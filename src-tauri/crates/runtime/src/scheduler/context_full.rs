//! Makes room in full contexts.

use std::sync::mpsc::{Receiver, TryRecvError};

use super::Scheduler;
use crate::context_full::ContextRoom;
use crate::sequence::Sequence;

impl Scheduler {
    /// Continues the generations whose context has room now, and finishes those whose context stays full.
    pub(super) fn resume_full_contexts(&mut self, active: &mut Vec<Sequence>) {
        let mut index = 0;
        while let Some(sequence) = active.get_mut(index) {
            let continues = match sequence.context_room.take() {
                None => true,
                Some(ContextRoom::Shift(keep_tokens)) => self.shift_context(sequence, keep_tokens),
                Some(ContextRoom::ShorterPrompt(replies)) => self.restart_from_reply(sequence, replies),
            };
            if continues {
                index += 1;
                continue;
            }
            let mut finished = active.remove(index);
            finished.finish_full();
            self.cache.close(finished.seq);
            self.is_crowded = false;
            self.has_changed = true;
        }
    }

    /// Drops tokens from the middle of a context. Requests a shorter prompt if that is impossible. Returns whether the
    /// generation can continue.
    fn shift_context(&mut self, sequence: &mut Sequence, keep_tokens: usize) -> bool {
        self.has_changed = true;
        let shifted = match &self.rotation {
            Ok(_) if sequence.has_pictures() => Err("a picture cannot be divided".to_owned()),
            Ok(rotation) => self
                .cache
                .shift(self.backend.as_mut(), sequence.seq, keep_tokens, rotation)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match shifted {
            Ok(dropped) => {
                tracing::info!(
                    tokens = dropped.len(),
                    after = dropped.start,
                    "context full: tokens dropped, rows shifted"
                );
                sequence.drop_tokens(dropped);
                true
            }
            Err(error) => {
                tracing::warn!(error, "context full: rows cannot be shifted");
                sequence.request_prompt()
            }
        }
    }

    /// Continues with a shorter prompt, if the reply has arrived. Returns whether the generation can continue.
    fn restart_from_reply(&mut self, sequence: &mut Sequence, replies: Receiver<Vec<u32>>) -> bool {
        let prompt = match replies.try_recv() {
            Ok(prompt) => prompt,
            Err(TryRecvError::Empty) => {
                sequence.context_room = Some(ContextRoom::ShorterPrompt(replies));
                return true;
            }
            Err(TryRecvError::Disconnected) => return false,
        };
        let has_unknown_token = self.unknown_token(&prompt, sequence.request_pictures()).is_some();
        if has_unknown_token || !sequence.replace_prompt(prompt) {
            return false;
        }
        // The old rows stay cached. The new prompt finds those up to the first turn that was dropped.
        self.cache.close(sequence.seq);
        let (seq, cached) = self.cache.open_scoped(sequence.keys(), sequence.scope());
        sequence.reopen(seq, cached);
        self.begin_restore(sequence);
        self.has_changed = true;
        true
    }
}
