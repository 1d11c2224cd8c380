//! Stored usage of an answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::inference::{Cost, Overflow, Truncated};

const NS_PER_MS: u64 = 1_000_000;

/// Usage of an answer. The field names are stored in the database; missing fields have defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// Tokens of the whole prompt.
    pub prompt_tokens: u64,
    /// Prompt tokens that were found in the cache.
    pub cached_tokens: u64,
    /// Cached tokens that were restored from RAM.
    pub ram_tokens: u64,
    /// Cached tokens that were restored from the SSD tier.
    pub ssd_tokens: u64,
    /// Cached tokens that were restored from the remote tier.
    pub remote_tokens: u64,
    /// Time of the restores.
    pub restore_ms: u64,
    /// Estimated time to compute the restored tokens.
    pub instead_of_ms: u64,
    /// Why most of the prompt was computed again.
    pub recomputed: Option<String>,
    /// Time to load the model.
    pub load_ms: u64,
    /// Time from the request to the first delta.
    pub first_token_ms: u64,
    /// Tokens of the answer.
    pub answer_tokens: u64,
    /// Time to compute the answer, in nanoseconds.
    pub answer_ns: u64,
    /// Whether the answer reached its token limit.
    pub length_reached: bool,
    /// What was left out because the context was full.
    pub truncated: Option<KeptTruncated>,
}

/// Stored form of [`Truncated`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "`Truncated` documents the fields")]
pub struct KeptTruncated {
    pub while_answering: bool,
    pub turns: u64,
    pub messages: u64,
    pub tokens: u64,
    pub cut_tokens: u64,
    pub context_tokens: u64,
}

impl Stats {
    /// Creates the statistics of an answer in progress.
    pub(super) fn of(cost: &Cost, truncated: Option<Truncated>, first_token_ms: u64) -> Self {
        let [ram_tokens, ssd_tokens, remote_tokens] = cost.recalled_tokens;
        Self {
            prompt_tokens: cost.prompt_tokens,
            cached_tokens: cost.cached_tokens,
            ram_tokens,
            ssd_tokens,
            remote_tokens,
            restore_ms: cost.recall_ns / NS_PER_MS,
            instead_of_ms: cost.recompute_ns / NS_PER_MS,
            recomputed: None,
            load_ms: cost.load_ns / NS_PER_MS,
            first_token_ms,
            answer_tokens: cost.answer_tokens,
            answer_ns: cost.answer_ns,
            length_reached: false,
            truncated: truncated.map(KeptTruncated::of),
        }
    }

    /// Adds the reason of a cache miss, [`crate::inference::Traced::reason`].
    pub(super) fn with_cache_miss(self, reason: Option<&'static str>) -> Self {
        // `whole` and `ends` are not misses: the prompt continues the cached prefix.
        let reason = reason.filter(|reason| !matches!(*reason, "whole" | "ends"));
        let is_miss = self.cached_tokens < self.prompt_tokens / 2;
        Self { recomputed: reason.filter(|_| is_miss).map(str::to_owned), ..self }
    }

    /// Speed of the answer.
    #[must_use]
    pub fn tokens_per_second(&self) -> f64 {
        if self.answer_ns == 0 { 0.0 } else { self.answer_tokens as f64 * 1e9 / self.answer_ns as f64 }
    }

    /// Returns the stored form.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("numbers can be written")
    }

    /// Parses the stored form; `None` if it is invalid.
    #[must_use]
    pub fn from_json(json: &Value) -> Option<Self> {
        serde_json::from_value(json.clone()).ok()
    }
}

impl KeptTruncated {
    fn of(truncated: Truncated) -> Self {
        let Truncated { reason, turns, messages, tokens, cut_tokens, context_tokens } = truncated;
        Self {
            while_answering: reason == Overflow::Answer,
            turns: turns as u64,
            messages: messages as u64,
            tokens: tokens as u64,
            cut_tokens: cut_tokens as u64,
            context_tokens: context_tokens as u64,
        }
    }
}
