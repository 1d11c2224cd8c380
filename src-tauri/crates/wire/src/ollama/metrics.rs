//! Usage of an answer. Durations are nanoseconds; zero values are omitted.

use serde::{Deserialize, Serialize};

/// Counts and times of one answer, on its last chunk.
///
/// `prompt_eval_count` is the whole prompt, as clients expect. `prompt_eval_duration` covers only the computed tokens,
/// which are `prompt_eval_count - cached_tokens`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names are Ollama's; the type documents them")]
pub struct Metrics {
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub total_duration: u64,
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub load_duration: u64,
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub prompt_eval_count: u64,
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub prompt_eval_duration: u64,
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub eval_count: u64,
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub eval_duration: u64,
    /// Prompt tokens that were found in the cache. Cairn's own field, as all that follow.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub cached_tokens: u64,
    /// Cached tokens that were restored from the RAM tier.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub ram_tokens: u64,
    /// Cached tokens that were restored from the SSD tier.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub ssd_tokens: u64,
    /// Cached tokens that were restored from the remote tier.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub remote_tokens: u64,
    /// Time of the restores, not included in `prompt_eval_duration`.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub restore_duration: u64,
    /// Estimated time to compute the restored tokens.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub recompute_duration: u64,
}
