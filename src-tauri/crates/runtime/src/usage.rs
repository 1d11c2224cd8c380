//! What was asked of a model since the engine started, where it came from, and what that took: plain numbers for metrics.
//!
//! They stay when the model is unloaded, and go on counting when it is loaded again.

use std::sync::Mutex;
use std::time::Duration;

use cairn_kv::Recomputed;
use cairn_tier::Place;

/// Upper bounds of a [`Histogram`]'s classes.
pub const BOUNDS: [Duration; 12] = [
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

/// How often something took how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How often it took at most the bound of the same place in [`BOUNDS`] and more than the one before; the last is what took longer
    /// than all of them.
    pub counts: [u64; BOUNDS.len() + 1],
    /// All of them together.
    pub sum: Duration,
    /// The longest.
    pub max: Duration,
}

impl Histogram {
    pub(crate) fn add(&mut self, took: Duration) {
        let class = BOUNDS.partition_point(|bound| *bound < took);
        self.counts[class] += 1;
        self.sum += took;
        self.max = self.max.max(took);
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of all prompts.
    pub lookup_tokens: u64,
    /// Of these, tokens whose rows were in the model's pages.
    pub page_tokens: u64,
    /// Tokens whose rows came back, by place in the order of [`Place`].
    pub restored_tokens: [u64; 3],
    /// Tokens that were computed, but for each prompt's last, which always is.
    pub recomputed: Recomputed,
    /// How long it took to bring rows back, by the farthest place that gave some, in the order of [`Place`].
    pub restores: [Histogram; 3],
    /// What computing those rows would have taken beyond that.
    pub saved: Duration,
    /// How long running answers waited for rows to be copied for the tiers, each time.
    pub stalls: Histogram,
}

/// A model's usage, which its scheduler counts and others read.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<Usage>);

impl Counters {
    pub(crate) fn count(&self, count: impl FnOnce(&mut Usage)) {
        count(&mut self.0.lock().expect("nobody panics while counting"));
    }

    pub(crate) fn usage(&self) -> Usage {
        *self.0.lock().expect("nobody panics while counting")
    }
}

impl Usage {
    /// Rows of this prompt, some of which were in the model's pages.
    pub(crate) fn lookup(&mut self, tokens: usize, in_pages: usize) {
        self.lookup_tokens += tokens as u64;
        self.page_tokens += in_pages as u64;
    }

    /// Rows came back: the farthest place that gave some, how long it took, and how long computing them would have.
    pub(crate) fn restored(&mut self, farthest: Place, took: Duration, recompute: Duration) {
        self.restores[farthest as usize].add(took);
        self.saved += recompute.saturating_sub(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_falls_into_the_class_whose_bound_it_does_not_exceed() {
        for (took, class) in [(0, 0), (100, 0), (101, 1), (2_000, 4), (2_001, 5), (61_000_000, 12)] {
            let mut histogram = Histogram::default();
            histogram.add(Duration::from_micros(took));
            assert_eq!(histogram.counts.iter().position(|&count| count == 1), Some(class), "{took} us");
            assert_eq!(histogram.max, Duration::from_micros(took), "it is the longest so far");
        }
    }
}
