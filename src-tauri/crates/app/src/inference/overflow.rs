//! Reports what was left out because the context was full: once at the end of an answer, and in the log each time.

use cairn_prompt::Message;
use cairn_runtime::ContextFull;

use super::conversation::Conversation;
use super::error::Error;
use super::fit;
use super::prompt_work::run_prompt_work;
use crate::values::{Overflow, Truncated};

/// Logs what was left out and returns it; returns `None` if nothing was left out.
pub(crate) fn logged(truncated: Truncated, model: &str) -> Option<Truncated> {
    (truncated.tokens > 0 || truncated.images > 0).then(|| {
        let Truncated { reason, turns, messages, tokens, cut_tokens, images, context_tokens } = truncated;
        tracing::warn!(
            model,
            ?reason,
            turns,
            messages,
            tokens,
            cut_tokens,
            images,
            context_tokens,
            "the context is full: dropped a part of the conversation"
        );
        truncated
    })
}

/// Overflow of one answer: the parts that were dropped, and the turns that can be dropped next.
#[derive(Default)]
pub(crate) struct OverflowState {
    /// The model's name, for the log.
    pub(crate) model: String,
    pub(crate) context_tokens: u64,
    /// Parts of the conversation that were dropped so far.
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
        let shortened = run_prompt_work(false, move |_| Ok((turns.shorten(answer_tokens)?, turns)));
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
    pub(crate) fn add_shift(&mut self, tokens: u64) {
        let nothing = Truncated::empty(Overflow::ContextFull, self.context_tokens);
        let shifted = logged(Truncated { tokens, cut_tokens: tokens, ..nothing }, &self.model);
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
    /// Images that the prompt lacks so far.
    lost_images: u32,
}

/// A shortened prompt, and what was dropped.
pub(crate) struct Shorter {
    prompt: Vec<u32>,
    truncated: Option<Truncated>,
}

impl Turns {
    /// Creates the state of a prompt that contains `messages`, or a part of them if it was cut.
    pub(crate) fn new(conversation: Conversation, messages: Vec<Message>, prompt: &[u32]) -> Self {
        let lost_images = conversation.lost_images(prompt);
        Self { conversation, messages, tokens: prompt.len(), lost_images }
    }

    /// Shortens the prompt of an answer with `answer_tokens` tokens. Drops enough turns to free half of the space that
    /// the answer leaves, so that the next overflow is far, or all turns that can be dropped. Returns `None` if no
    /// turn can be dropped, or if that leaves no room.
    pub(crate) fn shorten(&mut self, answer_tokens: usize) -> Result<Option<Shorter>, Error> {
        let context_tokens = self.conversation.context_tokens;
        let goal_tokens = context_tokens.saturating_sub(answer_tokens) / 2;
        let max_tokens = context_tokens.saturating_sub(answer_tokens + 1).min(self.tokens.saturating_sub(1));
        let render = |kept: &[Message]| self.conversation.encode_messages(kept);
        let fitted = fit::shorter(&self.messages, goal_tokens, Error::is_template_limit, render)?;
        let Some(fitted) = fitted.filter(|fitted| fitted.rendered.tokens.len() <= max_tokens) else {
            return Ok(None);
        };
        let prompt = fitted.rendered.tokens;
        let lost_images = self.conversation.lost_images(&prompt);
        let truncated = Truncated {
            turns: fitted.turns as u64,
            messages: fitted.dropped as u64,
            tokens: (self.tokens - prompt.len()) as u64,
            images: lost_images.saturating_sub(self.lost_images),
            ..Truncated::empty(Overflow::ContextFull, context_tokens as u64)
        };
        (self.messages, self.tokens, self.lost_images) = (fitted.messages, prompt.len(), lost_images);
        Ok(Some(Shorter { prompt, truncated: logged(truncated, &self.conversation.model) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_truncation_is_not_reported() {
        assert_eq!(logged(Truncated::empty(Overflow::PromptTooLong, 512), "m"), None);
    }
}
