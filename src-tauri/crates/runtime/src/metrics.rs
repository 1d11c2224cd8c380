//! Metrics of each model since the engine started.
//!
//! They survive an unload, and continue when the model is loaded again.

use std::time::Duration;

use cairn_kv::RecomputedTokens;
use cairn_tier::TierKind;
use parking_lot::Mutex;

/// Upper bounds of a [`Histogram`]'s buckets.
pub const HISTOGRAM_BOUNDS: [Duration; 12] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(60),
];

/// Histogram of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Number of durations by bucket of [`HISTOGRAM_BOUNDS`]. The last bucket has no bound.
    pub counts: [u64; HISTOGRAM_BOUNDS.len() + 1],
    /// Sum of all durations.
    pub sum: Duration,
    /// The longest duration.
    pub max: Duration,
}

impl Histogram {
    pub(crate) fn add(&mut self, took: Duration) {
        let bucket = HISTOGRAM_BOUNDS.partition_point(|bound| *bound < took);
        self.counts[bucket] += 1;
        self.sum += took;
        self.max = self.max.max(took);
    }
}

/// Metrics of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelMetrics {
    /// Tokens of all prompts.
    pub lookup_tokens: u64,
    /// Prompt tokens whose rows were in the model's pages.
    pub page_tokens: u64,
    /// Prompt tokens that were restored, by tier in the order of [`TierKind`].
    pub restored_tokens: [u64; 3],
    /// Prompt tokens that were computed, without the last of each prompt, which always is.
    pub recomputed: RecomputedTokens,
    /// Durations of restores, by the slowest tier used, in the order of [`TierKind`].
    pub restores: [Histogram; 3],
    /// Estimated time that restores saved.
    pub saved: Duration,
    /// Durations for which running answers waited while rows were copied for the tiers.
    pub stalls: Histogram,
    /// Durations from the acceptance of a request to its first step.
    pub queue_waits: Histogram,
    /// Answers that made room for others because their client did not read.
    pub unread_pauses: u64,
    /// Inputs that the encoder beside the decoder has computed.
    pub inputs: u64,
    /// Pictures that the vision tower has encoded.
    pub pictures: u64,
    /// Parts of pictures, each computed between two steps.
    pub picture_parts: u64,
    /// Speed of recent steps.
    pub speed: ModelSpeed,
}

/// Speed of one sequence, from recent steps of a model; absent until enough steps were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelSpeed {
    /// Tokens of an answer in a second.
    pub answer_tokens_per_second: Option<f64>,
    /// Tokens of a prompt in a second.
    pub prompt_tokens_per_second: Option<f64>,
}

/// A model's metrics, which its scheduler counts and other threads read.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<ModelMetrics>);

impl Counters {
    pub(crate) fn count(&self, count: impl FnOnce(&mut ModelMetrics)) {
        count(&mut self.0.lock());
    }

    pub(crate) fn metrics(&self) -> ModelMetrics {
        *self.0.lock()
    }
}

impl ModelMetrics {
    /// Counts the lookup of a prompt, some of whose tokens were in the model's pages.
    pub(crate) fn add_lookup(&mut self, tokens: usize, in_pages: usize) {
        self.lookup_tokens += tokens as u64;
        self.page_tokens += in_pages as u64;
    }

    /// Counts a restore: slowest tier used, restore time, estimated recompute time.
    pub(crate) fn add_restore(&mut self, slowest: TierKind, took: Duration, recompute: Duration) {
        self.restores[slowest as usize].add(took);
        self.saved += recompute.saturating_sub(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_bucket_bounds_are_inclusive() {
        for (took, bucket) in [(0, 0), (100, 0), (101, 1), (2_000, 4), (2_001, 5), (61_000_000, 12)] {
            let mut histogram = Histogram::default();
            histogram.add(Duration::from_micros(took));
            assert_eq!(histogram.counts.iter().position(|&count| count == 1), Some(bucket), "{took} us");
            assert_eq!(histogram.max, Duration::from_micros(took), "{took} us is the longest");
        }
    }
}
