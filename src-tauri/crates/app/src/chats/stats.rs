//! What an answer cost, as it is kept beside it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::inference::{Cost, Overflow, Truncated};

const NS_PER_MS: u64 = 1_000_000;

/// What an answer cost. These names are in files; one that is missing there has its default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// Tokens of the whole prompt.
    pub prompt_tokens: u64,
    /// Of these, tokens that were found computed.
    pub cached_tokens: u64,
    /// Of these, tokens that came back from RAM.
    pub ram_tokens: u64,
    /// From this machine's disk.
    pub ssd_tokens: u64,
    /// From the remote tier.
    pub remote_tokens: u64,
    /// What bringing them back took.
    pub restore_ms: u64,
    /// What computing them would have taken.
    pub instead_of_ms: u64,
    /// Why most of the prompt was computed, although it was computed before.
    pub recomputed: Option<String>,
    /// Loading the model.
    pub load_ms: u64,
    /// From the request to the first piece of the answer.
    pub first_token_ms: u64,
    /// Tokens of the answer.
    pub answer_tokens: u64,
    /// Computing them, in nanoseconds.
    pub answer_ns: u64,
    /// Whether the limit of tokens was reached.
    pub length_reached: bool,
    /// What did not fit into the context.
    pub truncated: Option<KeptTruncated>,
}

/// What was known of a prompt before it was asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Missing {
    /// As [`crate::inference::Traced`] has it.
    pub(super) reason: &'static str,
    /// What loading the model took.
    pub(super) load_ms: u64,
}

/// [`Truncated`], as it is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the names mean what they mean in `Truncated`")]
pub struct KeptTruncated {
    pub while_answering: bool,
    pub turns: u64,
    pub messages: u64,
    pub tokens: u64,
    pub cut_tokens: u64,
    pub context_tokens: u64,
}

impl Stats {
    /// Of an answer that has come so far; its limit of tokens was not reached.
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

    /// With what was known before the request.
    pub(super) fn explained(self, missing: Option<Missing>) -> Self {
        let Some(Missing { reason, load_ms }) = missing else { return self };
        // What ends, or is whole, goes on in the ordinary way.
        let is_miss = self.cached_tokens < self.prompt_tokens / 2 && !matches!(reason, "whole" | "ends");
        Self { recomputed: is_miss.then(|| reason.to_owned()), load_ms: self.load_ms.max(load_ms), ..self }
    }

    /// How fast the answer's tokens came.
    #[must_use]
    pub fn tokens_per_second(&self) -> f64 {
        if self.answer_ns == 0 { 0.0 } else { self.answer_tokens as f64 * 1e9 / self.answer_ns as f64 }
    }

    /// As it is kept.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("numbers can be written")
    }

    /// Of what was kept; none where that is no such thing.
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
