//! What an answer cost. Durations are nanoseconds; what is zero is left out.

use serde::{Deserialize, Serialize};

/// Counts and times of one answer, on its last chunk.
///
/// `prompt_eval_count` is the whole prompt, as clients expect; `prompt_eval_duration` covers only the tokens that had to
/// be computed, which are `prompt_eval_count - cached_tokens`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are the wire's own; the type's text says what they mean")]
pub struct Metrics {
    #[serde(skip_serializing_if = "is_zero")]
    pub total_duration: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub load_duration: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub prompt_eval_count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub prompt_eval_duration: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub eval_count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub eval_duration: u64,
    /// Prompt tokens that were found computed already. Ours: Ollama has no such field.
    #[serde(skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Of these, the tokens that had left memory's pages and came back from RAM. Ours, as all that follows.
    #[serde(skip_serializing_if = "is_zero")]
    pub ram_tokens: u64,
    /// From this machine's disk.
    #[serde(skip_serializing_if = "is_zero")]
    pub ssd_tokens: u64,
    /// From the remote tier.
    #[serde(skip_serializing_if = "is_zero")]
    pub remote_tokens: u64,
    /// Bringing them back; it is no part of `prompt_eval_duration`.
    #[serde(skip_serializing_if = "is_zero")]
    pub restore_duration: u64,
    /// What computing them would have taken instead, by what computing has taken lately.
    #[serde(skip_serializing_if = "is_zero")]
    pub recompute_duration: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}
