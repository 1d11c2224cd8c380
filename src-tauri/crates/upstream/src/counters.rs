//! Counters of one server, for metrics. They only grow.

use std::sync::atomic::{AtomicU64, Ordering};

use cairn_wire::Usage;

/// Values of the counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were sent.
    pub requests: u64,
    /// Answers that were complete.
    pub complete: u64,
    /// Requests that failed because of the server or the connection.
    pub failed: u64,
    /// Requests that failed before the first token and were repeated at another server.
    pub retried: u64,
    /// Requests that the client cancelled.
    pub cancelled: u64,
    /// Prompt tokens of complete answers.
    pub prompt_tokens: u64,
    /// Those of them that the server had in its cache, as far as it reports them.
    pub cached_tokens: u64,
    /// Answer tokens of complete answers.
    pub answer_tokens: u64,
    /// Blocks of all conversations that were sent.
    pub blocks: u64,
    /// Those of them that the server probably had in its cache.
    pub matching_blocks: u64,
    /// Times that the circuit opened.
    pub circuit_openings: u64,
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) complete: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    prompt_tokens: AtomicU64,
    cached_tokens: AtomicU64,
    answer_tokens: AtomicU64,
    pub(crate) blocks: AtomicU64,
    pub(crate) matching_blocks: AtomicU64,
    pub(crate) circuit_openings: AtomicU64,
}

/// Adds to a counter, up to its maximum. Servers report some of the counts.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    let sum = |before: u64| Some(before.saturating_add(count));
    // The update never fails, because there is always a sum.
    let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
}

impl Counters {
    /// Counts a complete answer.
    pub(crate) fn add_usage(&self, usage: &Usage) {
        add(&self.complete, 1);
        add(&self.prompt_tokens, usage.prompt_tokens);
        add(&self.cached_tokens, usage.cached_tokens);
        add(&self.answer_tokens, usage.answer_tokens);
    }

    pub(crate) fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            requests: of(&self.requests),
            complete: of(&self.complete),
            failed: of(&self.failed),
            retried: of(&self.retried),
            cancelled: of(&self.cancelled),
            prompt_tokens: of(&self.prompt_tokens),
            cached_tokens: of(&self.cached_tokens),
            answer_tokens: of(&self.answer_tokens),
            blocks: of(&self.blocks),
            matching_blocks: of(&self.matching_blocks),
            circuit_openings: of(&self.circuit_openings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_end_at_their_maximum() {
        let counters = Counters::default();
        for answer_tokens in [u64::MAX - 1, 7] {
            counters.add_usage(&Usage { answer_tokens, ..Usage::default() });
        }
        assert_eq!((counters.counts().answer_tokens, counters.counts().complete), (u64::MAX, 2));
    }
}
