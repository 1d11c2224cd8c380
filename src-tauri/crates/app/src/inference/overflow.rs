//! What did not fit into the context and was left out, so that nobody has to guess it.
//!
//! It is told once for each answer, with its end, and each time in one line of the log.

use cairn_prompt::Message;
use cairn_runtime::ContextFull;

use super::chat::{Conversation, prepared};
use super::error::Error;
use super::fit;

/// What an answer did without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated {
    /// When the last of it went.
    pub reason: Overflow,
    /// Oldest turns of the conversation.
    pub turns: usize,
    /// Messages in these turns.
    pub messages: usize,
    /// All tokens that the model no longer saw.
    pub tokens: usize,
    /// Those of them that went out of the middle of what was kept.
    pub cut_tokens: usize,
    /// Tokens that the context holds.
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
    /// Nothing was left out so far.
    pub(crate) fn none(reason: Overflow, context_tokens: usize) -> Self {
        Self { reason, turns: 0, messages: 0, tokens: 0, cut_tokens: 0, context_tokens }
    }

    /// Whether anything was left out; then it is said in the log too.
    pub(crate) fn said(self, model: &str) -> Option<Self> {
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
                "what does not fit into the context was left out"
            );
            self
        })
    }

    /// Both together; the second came later.
    pub(crate) fn and(first: Option<Self>, second: Option<Self>) -> Option<Self> {
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

/// What an answer does without, so far and when its context is full.
#[derive(Default)]
pub(crate) struct Overflowing {
    /// The model's name, for the log.
    pub(crate) model: String,
    pub(crate) context_tokens: usize,
    /// What did not fit so far.
    pub(crate) truncated: Option<Truncated>,
    /// What can be left out further.
    pub(crate) turns: Option<Turns>,
}

impl Overflowing {
    /// Leaves out the oldest turns, so that an answer whose context is full can go on. Where none can go the answer ends.
    pub(crate) async fn make_room(&mut self, full: ContextFull) {
        let Some(mut turns) = self.turns.take() else { return };
        let answer_tokens = full.answer_tokens;
        // Long conversations take a while to read, in which the threads that serve other clients go on.
        let shortened = prepared(move || Ok((turns.shorten(answer_tokens)?, turns)));
        match shortened.await {
            Ok((Some(Shorter { prompt, truncated }), turns)) => {
                self.truncated = Truncated::and(self.truncated, truncated);
                self.turns = Some(turns);
                full.resume_with(prompt);
            }
            Ok((None, _)) => tracing::info!(model = self.model, answer_tokens, "context full, and no turn can go"),
            // The daemon is ending.
            Err(Error::EngineGone) => {}
            Err(error) => tracing::warn!(model = self.model, %error, "context full"),
        }
    }

    /// Takes note of tokens that the engine forgot by itself.
    pub(crate) fn forgot(&mut self, tokens: usize) {
        let nothing = Truncated::none(Overflow::Answer, self.context_tokens);
        let forgotten = Truncated { tokens, cut_tokens: tokens, ..nothing }.said(&self.model);
        self.truncated = Truncated::and(self.truncated, forgotten);
    }
}

/// The turns of a conversation that is being answered, so that the oldest can go when the context is full.
pub(crate) struct Turns {
    conversation: Conversation,
    /// What is left of it.
    messages: Vec<Message>,
    /// How many tokens that is.
    tokens: usize,
}

/// A prompt in place of a longer one, and what went.
pub(crate) struct Shorter {
    prompt: Vec<u32>,
    truncated: Option<Truncated>,
}

impl Turns {
    pub(crate) fn new(conversation: Conversation, messages: Vec<Message>, tokens: usize) -> Self {
        Self { conversation, messages, tokens }
    }

    /// A shorter prompt for an answer that has so many tokens, and what went: enough turns for half of what the answer leaves to be free,
    /// so that this is not soon to be done again, or as many as there are. None where nothing could go, or where that would leave no room.
    pub(crate) fn shorten(&mut self, answer_tokens: usize) -> Result<Option<Shorter>, Error> {
        let context_tokens = self.conversation.context_tokens;
        let goal_tokens = context_tokens.saturating_sub(answer_tokens) / 2;
        let longest_tokens = context_tokens.saturating_sub(answer_tokens + 1).min(self.tokens.saturating_sub(1));
        let fitted = fit::shorter(&self.messages, goal_tokens, |kept| self.conversation.read(kept))?;
        let Some(fitted) = fitted.filter(|fitted| fitted.rendered.tokens.len() <= longest_tokens) else {
            return Ok(None);
        };
        let prompt = fitted.rendered.tokens;
        let truncated = Truncated {
            turns: fitted.turns,
            messages: fitted.dropped,
            tokens: self.tokens - prompt.len(),
            ..Truncated::none(Overflow::Answer, context_tokens)
        };
        (self.messages, self.tokens) = (fitted.messages, prompt.len());
        Ok(Some(Shorter { prompt, truncated: truncated.said(&self.conversation.model) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_at_several_times_is_added_up() {
        let some = |reason, turns: usize, cut_tokens: usize| {
            Some(Truncated { turns, messages: 2 * turns, tokens: 100, cut_tokens, ..Truncated::none(reason, 512) })
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
        assert_eq!(Truncated::and(first, second), Some(expected), "both, and when the last went");
        assert_eq!(Truncated::and(first, None), first, "one");
        assert_eq!(Truncated::and(None, second), second, "the other");
        assert_eq!(Truncated::none(Overflow::Prompt, 512).said("m"), None, "nothing is not told");
    }
}
