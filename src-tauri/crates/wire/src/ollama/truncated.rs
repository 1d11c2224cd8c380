//! What was left out of an answer's context because it was full. Cairn's own extension of Ollama's API.

use serde::{Deserialize, Serialize};

/// What was left out; on an answer's last chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// When the last part was left out.
    pub reason: Overflow,
    /// Number of dropped turns: a question and all messages before the next question.
    #[serde(default)]
    pub turns: u64,
    /// Number of messages in these turns.
    #[serde(default)]
    pub messages: u64,
    /// All dropped tokens.
    pub tokens: u64,
    /// Dropped tokens that were cut out of the middle of kept messages.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub cut_tokens: u64,
    /// Size of the context.
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
