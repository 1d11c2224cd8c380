//! How a sequence continues when its context is full.

use std::ops::Range;

use super::Sequence;
use crate::context_full::ContextRoom;
use crate::request::FinishReason;

impl Sequence {
    /// Decides how the full context gets room. Returns whether the generation can continue.
    pub(super) fn make_context_room(&mut self) -> bool {
        // An input is read as a whole, and all rows depend on it.
        if self.input.is_some() {
            return false;
        }
        match self.job.request.on_context_full.shift_after_tokens {
            Some(keep_tokens) => {
                self.context_room = Some(ContextRoom::Shift(keep_tokens));
                true
            }
            None => self.request_prompt(),
        }
    }

    /// Requests a shorter prompt, if the policy allows it. Returns whether it does.
    pub(crate) fn request_prompt(&mut self) -> bool {
        let allowed = self.job.request.on_context_full.request_prompt;
        if allowed {
            let replies = self.job.events.request_prompt(self.generated());
            self.context_room = Some(ContextRoom::ShorterPrompt(replies));
        }
        allowed
    }

    /// Replaces the prompt. Returns whether that leaves room; if not, nothing has changed.
    pub(crate) fn replace_prompt(&mut self, prompt: Vec<u32>) -> bool {
        if prompt.is_empty() || prompt.len() + self.generated() >= self.job.context_tokens {
            return false;
        }
        self.history = prompt;
        self.history.extend_from_slice(&self.answer);
        self.read_history();
        self.has_full_prompt = false;
        true
    }

    /// Drops these tokens of the history, whose rows are gone.
    pub(crate) fn drop_tokens(&mut self, tokens: Range<usize>) {
        self.computed -= tokens.len();
        self.dropped_tokens += tokens.len();
        self.history.drain(tokens);
        self.read_history();
        self.has_full_prompt = false;
    }

    /// Finishes a generation whose context stays full.
    pub(crate) fn finish_full(&mut self) {
        self.end(FinishReason::Length);
    }
}
