//! What did not fit into the context and was left out, so that nobody has to guess it.
//!
//! It is told once for each answer, with its end, and each time in one line of the log.

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
