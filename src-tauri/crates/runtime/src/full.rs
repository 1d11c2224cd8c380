//! What happens when prompt and answer have filled the context and the answer is not at its end.
//!
//! The engine knows tokens, not turns: whoever made the prompt can be asked for a shorter one, after which the answer's tokens are
//! computed anew and the answer goes on, or rows can be moved without being computed, which is quicker and less exact. Its tokens
//! so far, its sampler and the text that is held back stay as they are either way.

use std::sync::mpsc;

/// What a request wants done when its context is full. The answer ends there if nothing else is possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WhenFull {
    /// Forget a part of what follows this many tokens, and turn the keys of the rest to their new positions.
    pub shift_after_tokens: Option<usize>,
    /// Ask for a shorter prompt, by [`Event::Full`](crate::Event::Full).
    pub ask: bool,
}

/// A question for a shorter prompt. Dropped without an answer, it ends the request with
/// [`FinishReason::Length`](crate::FinishReason::Length).
#[derive(Clone, Debug)]
pub struct Full {
    /// Tokens that the answer has so far. They come after the new prompt, with room for one more at least.
    pub answer_tokens: usize,
    replies: mpsc::Sender<Vec<u32>>,
}

impl Full {
    /// A question and where its answer arrives.
    pub(crate) fn new(answer_tokens: usize) -> (Self, mpsc::Receiver<Vec<u32>>) {
        let (replies, receiver) = mpsc::channel();
        (Self { answer_tokens, replies }, receiver)
    }

    /// Goes on with this prompt in place of the request's.
    pub fn go_on(self, prompt: Vec<u32>) {
        // The request may have been cancelled meanwhile.
        let _ = self.replies.send(prompt);
    }
}

/// A sequence whose context is full.
#[derive(Debug)]
pub(crate) enum Filled {
    /// A part of it is to be forgotten, after this many tokens.
    Shifts(usize),
    /// A shorter prompt is on its way.
    Waits(mpsc::Receiver<Vec<u32>>),
}
