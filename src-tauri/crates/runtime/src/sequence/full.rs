//! A sequence whose context is full, and how it goes on.

use std::ops::Range;

use super::Sequence;
use crate::full::{Filled, Full};
use crate::request::FinishReason;

impl Sequence {
    /// Takes note that the context is full. Returns whether the answer may go on.
    pub(super) fn fill(&mut self) -> bool {
        match self.job.request.when_full.shift_after_tokens {
            Some(keep_tokens) => {
                self.full = Some(Filled::Shifts(keep_tokens));
                true
            }
            None => self.ask(),
        }
    }

    /// Asks for a shorter prompt. Returns whether there is anybody to ask.
    pub(crate) fn ask(&mut self) -> bool {
        if self.job.request.when_full.ask {
            let (full, replies) = Full::new(self.generated());
            self.full = Some(Filled::Waits(replies));
            self.job.listener.ask(full);
        }
        self.job.request.when_full.ask
    }

    /// Goes on after another prompt. Returns whether that leaves room; if not, all is as it was.
    pub(crate) fn replace(&mut self, prompt: Vec<u32>) -> bool {
        if prompt.is_empty() || prompt.len() + self.generated() >= self.job.context_tokens {
            return false;
        }
        self.history = prompt;
        self.history.extend_from_slice(&self.answer);
        self.whole = false;
        true
    }

    /// Goes on without these tokens of its history, whose rows are gone.
    pub(crate) fn forget(&mut self, gone: Range<usize>) {
        self.computed -= gone.len();
        self.forgotten_tokens += gone.len();
        self.history.drain(gone);
        self.whole = false;
    }

    /// Ends an answer whose context is full.
    pub(crate) fn end_full(&mut self) {
        self.end(FinishReason::Length);
    }
}
