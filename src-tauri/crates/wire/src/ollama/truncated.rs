//! What an answer did without because the context was too small. Ours: Ollama says nothing of it.

use serde::{Deserialize, Serialize};

/// What was left out, on an answer's last chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// When the last of it went.
    pub reason: Overflow,
    /// Oldest turns of the conversation: each a question, with all that was said before the next one.
    #[serde(default)]
    pub turns: u64,
    /// Messages in these turns.
    #[serde(default)]
    pub messages: u64,
    /// All tokens that the model no longer saw.
    pub tokens: u64,
    /// Those of them that went out of the middle of what was kept.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub cut_tokens: u64,
    /// Tokens that the context holds.
    pub context_tokens: u64,
}

/// When a context was too small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// Before the answer.
    PromptTooLong,
    /// While the answer was being computed.
    ContextFull,
}
