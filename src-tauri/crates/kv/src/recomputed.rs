//! Counts of prompt tokens that were computed although they were looked up, by reason.

use std::ops::AddAssign;

/// Why prompt tokens are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecomputeReason {
    /// No tier stores them.
    Miss,
    /// Computing them is faster than restoring them.
    Cheaper,
    /// The rows were not restored in time.
    Deadline,
    /// The stored rows are damaged.
    Corrupt,
    /// The stored rows were computed with other arithmetic or have another layout.
    Incompatible,
    /// Running sequences held all pages that they could have been restored to.
    NoPages,
}

impl RecomputeReason {
    /// All reasons.
    pub const ALL: [Self; 6] =
        [Self::Miss, Self::Cheaper, Self::Deadline, Self::Corrupt, Self::Incompatible, Self::NoPages];

    /// The reason's name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Miss => "miss",
            Self::Cheaper => "cheaper",
            Self::Deadline => "deadline",
            Self::Corrupt => "corrupt",
            Self::Incompatible => "incompatible",
            Self::NoPages => "no_pages",
        }
    }
}

/// Number of computed prompt tokens by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecomputedTokens([u64; RecomputeReason::ALL.len()]);

impl RecomputedTokens {
    /// Tokens that were computed for one reason.
    pub fn new(reason: RecomputeReason, tokens: usize) -> Self {
        let mut counts = Self::default();
        counts.0[reason as usize] = tokens as u64;
        counts
    }

    /// Number of tokens for this reason.
    pub fn tokens(&self, reason: RecomputeReason) -> u64 {
        self.0[reason as usize]
    }

    /// The reasons that occurred, with the number of tokens for each.
    pub fn reasons(&self) -> impl Iterator<Item = (RecomputeReason, u64)> + '_ {
        RecomputeReason::ALL.into_iter().map(|reason| (reason, self.tokens(reason))).filter(|(_, tokens)| *tokens > 0)
    }
}

impl AddAssign for RecomputedTokens {
    fn add_assign(&mut self, more: Self) {
        self.0.iter_mut().zip(more.0).for_each(|(sum, more)| *sum += more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recomputed_tokens_are_summed_by_reason() {
        let mut sum = RecomputedTokens::new(RecomputeReason::Miss, 3);
        sum += RecomputedTokens::new(RecomputeReason::Deadline, 5);
        sum += RecomputedTokens::new(RecomputeReason::Miss, 4);
        let reasons: Vec<_> = sum.reasons().map(|(reason, tokens)| (reason.name(), tokens)).collect();
        assert_eq!(reasons, [("miss", 7), ("deadline", 5)], "reasons without tokens are left out");
    }
}
