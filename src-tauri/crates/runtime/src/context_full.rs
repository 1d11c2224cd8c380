//! What happens when prompt and answer have filled the context before the answer is complete.
//!
//! The engine knows tokens, not turns. It can request a shorter prompt from the client of the generation and compute the
//! answer's tokens again after it. Or it can shift rows without computing them, which is faster and less exact. Either way
//! the answer's tokens, its sampler and the text that is held back stay as they are.

use std::sync::mpsc;

use crate::wake::{SchedulerWaker, WakeOnDrop};

/// What to do when the context is full. The answer ends there if nothing else is possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextFullPolicy {
    /// Drop a part of the tokens after this many, and rotate the keys of the rest to their new positions.
    pub shift_after_tokens: Option<usize>,
    /// Request a shorter prompt by [`Event::ContextFull`](crate::Event::ContextFull).
    pub request_prompt: bool,
}

/// A request for a shorter prompt. Dropping it without a reply ends the generation with
/// [`FinishReason::Length`](crate::FinishReason::Length).
#[derive(Clone, Debug)]
pub struct ContextFull {
    /// Tokens that the answer has so far. They follow the new prompt, and at least one more token must fit.
    pub answer_tokens: usize,
    replies: mpsc::Sender<Vec<u32>>,
    /// Wakes the scheduler after a reply, and after `replies` was dropped without one: fields are dropped in order.
    _wake: WakeOnDrop,
}

impl ContextFull {
    /// A request, and the receiver of its reply.
    pub(crate) fn new(answer_tokens: usize, waker: SchedulerWaker) -> (Self, mpsc::Receiver<Vec<u32>>) {
        let (replies, receiver) = mpsc::channel();
        (Self { answer_tokens, replies, _wake: WakeOnDrop(waker) }, receiver)
    }

    /// Continues the generation after this prompt, which replaces the request's.
    pub fn resume_with(self, prompt: Vec<u32>) {
        // The generation may have been cancelled; that is not an error.
        let _ = self.replies.send(prompt);
    }
}

/// How a sequence whose context is full gets room.
#[derive(Debug)]
pub(crate) enum ContextRoom {
    /// By dropping a part of its tokens after this many.
    Shift(usize),
    /// By a shorter prompt, which has been requested.
    ShorterPrompt(mpsc::Receiver<Vec<u32>>),
}
