//! Reports what was left out because the context was full: once at the end of an answer, and in the log each time.

use cairn_prompt::Message;
use cairn_runtime::ContextFull;

use super::conversation::{Conversation, run_blocking};
use super::error::Error;
use super::fit;

/// What was left out of a prompt or an answer's context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated {
    /// When the last part was left out.
    pub reason: Overflow,
    /// Number of dropped turns.
    pub turns: usize,
    /// Number of messages in these turns.
    pub messages: usize,
    /// All dropped tokens.
    pub tokens: usize,
    /// Dropped tokens that were cut out of the middle of kept messages.
    pub cut_tokens: usize,
    /// Size of the context.
    pub context_tokens: usize,
}

/// When a context was too small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// Before the answer.
    Prompt,
    /// While the answer was being computed.
    Answer,
}

impl Truncated {
    /// The empty value: nothing was left out.
    pub(crate) fn empty(reason: Overflow, context_tokens: usize) -> Self {
        Self { reason, turns: 0, messages: 0, tokens: 0, cut_tokens: 0, context_tokens }
    }

    /// Logs the value and returns it; returns `None` if nothing was left out.
    pub(crate) fn logged(self, model: &str) -> Option<Self> {
        (self.tokens > 0).then(|| {
            let Self { reason, turns, messages, tokens, cut_tokens, context_tokens } = self;
            tracing::warn!(
                model,
                ?reason,
                turns,
                messages,
                tokens,
                cut_tokens,
                context_tokens,
                "the context is full: dropped a part of the conversation"
            );
            self
        })
    }

    /// Adds both; `second` came later.
    pub(crate) fn merge(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        let (Some(first), Some(second)) = (first, second) else { return first.or(second) };
        Some(Self {
            turns: first.turns + second.turns,
            messages: first.messages + second.messages,
            tokens: first.tokens + second.tokens,
            cut_tokens: first.cut_tokens + second.cut_tokens,
            ..second
        })
    }
}

/// Overflow of one answer: what was left out, and how to shorten the conversation further.
#[derive(Default)]
pub(crate) struct OverflowState {
    /// The model's name, for the log.
    pub(crate) model: String,
    pub(crate) context_tokens: usize,
    /// What was left out so far.
    pub(crate) truncated: Option<Truncated>,
    /// Turns that can be dropped.
    pub(crate) turns: Option<Turns>,
}

impl OverflowState {
    /// Drops the oldest turns of an answer whose context is full. If none can be dropped, the answer ends.
    pub(crate) async fn make_room(&mut self, full: ContextFull) {
        let Some(mut turns) = self.turns.take() else { return };
        let answer_tokens = full.answer_tokens;
        // Rendering a long conversation takes a while, so it runs on a blocking thread.
        let shortened = run_blocking(move || Ok((turns.shorten(answer_tokens)?, turns)));
        match shortened.await {
            Ok((Some(Shorter { prompt, truncated }), turns)) => {
                self.truncated = Truncated::merge(self.truncated, truncated);
                self.turns = Some(turns);
                full.resume_with(prompt);
            }
            Ok((None, _)) => {
                tracing::info!(model = self.model, answer_tokens, "the context is full, and no turn can be dropped")
            }
            // The daemon is shutting down.
            Err(Error::EngineGone) => {}
            Err(error) => {
                tracing::warn!(model = self.model, %error, "the context is full, and the prompt cannot be shortened")
            }
        }
    }

    /// Adds tokens that a context shift of the engine dropped.
    pub(crate) fn add_shift(&mut self, tokens: usize) {
        let nothing = Truncated::empty(Overflow::Answer, self.context_tokens);
        let shifted = Truncated { tokens, cut_tokens: tokens, ..nothing }.logged(&self.model);
        self.truncated = Truncated::merge(self.truncated, shifted);
    }
}

/// The turns of a conversation in progress, whose oldest can be dropped.
pub(crate) struct Turns {
    conversation: Conversation,
    /// Messages that are left.
    messages: Vec<Message>,
    /// Tokens of these messages.
    tokens: usize,
}

/// A shortened prompt, and what was dropped.
pub(crate) struct Shorter {
    prompt: Vec<u32>,
    truncated: Option<Truncated>,
}

impl Turns {
    pub(crate) fn new(conversation: Conversation, messages: Vec<Message>, tokens: usize) -> Self {
        Self { conversation, messages, tokens }
    }

    /// Shortens the prompt of an answer with `answer_tokens` tokens. Drops enough turns to free half of the space that
    /// the answer leaves, so that the next overflow is far, or all turns that can be dropped. Returns `None` if no
    /// turn can be dropped, or if that leaves no room.
    pub(crate) fn shorten(&mut self, answer_tokens: usize) -> Result<Option<Shorter>, Error> {
        let context_tokens = self.conversation.context_tokens;
        let goal_tokens = context_tokens.saturating_sub(answer_tokens) / 2;
        let max_tokens = context_tokens.saturating_sub(answer_tokens + 1).min(self.tokens.saturating_sub(1));
        let fitted = fit::shorter(&self.messages, goal_tokens, |kept| self.conversation.encode_messages(kept))?;
        let Some(fitted) = fitted.filter(|fitted| fitted.rendered.tokens.len() <= max_tokens) else {
            return Ok(None);
        };
        let prompt = fitted.rendered.tokens;
        let truncated = Truncated {
            turns: fitted.turns,
            messages: fitted.dropped,
            tokens: self.tokens - prompt.len(),
            ..Truncated::empty(Overflow::Answer, context_tokens)
        };
        (self.messages, self.tokens) = (fitted.messages, prompt.len());
        Ok(Some(Shorter { prompt, truncated: truncated.logged(&self.conversation.model) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncations_add_up_over_an_answer() {
        let some = |reason, turns: usize, cut_tokens: usize| {
            Some(Truncated { turns, messages: 2 * turns, tokens: 100, cut_tokens, ..Truncated::empty(reason, 512) })
        };
        let (first, second) = (some(Overflow::Prompt, 3, 7), some(Overflow::Answer, 1, 0));
        let expected = Truncated {
            reason: Overflow::Answer,
            turns: 4,
            messages: 8,
            tokens: 200,
            cut_tokens: 7,
            context_tokens: 512,
        };
        assert_eq!(Truncated::merge(first, second), Some(expected), "the sum has the last reason");
        assert_eq!(Truncated::merge(first, None), first, "only the first");
        assert_eq!(Truncated::merge(None, second), second, "only the second");
        assert_eq!(Truncated::empty(Overflow::Prompt, 512).logged("m"), None, "an empty value is not reported");
    }
}
