//! What happened to the prompt tokens of each hour of the last day. The engine counts since the start of the daemon; an hour has the
//! differences between these counts, which are read after each answer.

use std::collections::VecDeque;
use std::time::Duration;

use cairn_runtime::ModelMetrics;

/// Number of hours that are kept.
const HOURS: u64 = 24;

/// Prompt tokens by the place of their rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PromptCounts {
    /// Tokens with rows in pages of the loaded model.
    pub page_tokens: u64,
    /// Tokens with restored rows, by tier in the order of [`cairn_tier::TierKind`].
    pub restored_tokens: [u64; 3],
    /// Tokens that were computed.
    pub computed_tokens: u64,
    /// Estimated time that the restores saved.
    pub saved: Duration,
}

/// The prompt tokens of an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HourCounts {
    /// The hour, counted from the start of 1970 (UTC).
    pub hour: u64,
    /// Its tokens.
    pub counts: PromptCounts,
}

/// The counts of the last hours.
#[derive(Debug, Default)]
pub(super) struct CountsByHour {
    /// Counts since the start of the daemon.
    total: PromptCounts,
    /// Hours with prompts, oldest first.
    hours: VecDeque<HourCounts>,
}

impl PromptCounts {
    /// The sum of all models.
    pub(super) fn sum<'a>(models: impl Iterator<Item = &'a ModelMetrics>) -> Self {
        models.fold(Self::default(), |sum, model| {
            let found = model.page_tokens + model.restored_tokens.iter().sum::<u64>();
            let counts = Self {
                page_tokens: model.page_tokens,
                restored_tokens: model.restored_tokens,
                computed_tokens: model.lookup_tokens.saturating_sub(found),
                saved: model.saved,
            };
            sum.plus(counts)
        })
    }

    fn plus(self, more: Self) -> Self {
        Self {
            page_tokens: self.page_tokens + more.page_tokens,
            restored_tokens: std::array::from_fn(|tier| self.restored_tokens[tier] + more.restored_tokens[tier]),
            computed_tokens: self.computed_tokens + more.computed_tokens,
            saved: self.saved + more.saved,
        }
    }

    fn minus(self, less: Self) -> Self {
        let restored = |tier: usize| self.restored_tokens[tier].saturating_sub(less.restored_tokens[tier]);
        Self {
            page_tokens: self.page_tokens.saturating_sub(less.page_tokens),
            restored_tokens: std::array::from_fn(restored),
            computed_tokens: self.computed_tokens.saturating_sub(less.computed_tokens),
            saved: self.saved.saturating_sub(less.saved),
        }
    }
}

impl CountsByHour {
    /// Adds to this hour what was counted since the last call. `total` are the counts since the start of the daemon.
    pub(super) fn observe(&mut self, hour: u64, total: PromptCounts) {
        let new = total.minus(self.total);
        self.total = total;
        self.hours.retain(|old| old.hour + HOURS > hour);
        if new == PromptCounts::default() {
            return;
        }
        match self.hours.back_mut() {
            Some(last) if last.hour == hour => last.counts = last.counts.plus(new),
            _ => self.hours.push_back(HourCounts { hour, counts: new }),
        }
    }

    /// The hours with prompts, oldest first, at most 24.
    pub(super) fn hours(&self) -> Vec<HourCounts> {
        self.hours.iter().copied().collect()
    }

    /// Time that restores have saved on the day of an hour (UTC).
    pub(super) fn saved_on_day_of(&self, hour: u64) -> Duration {
        self.hours.iter().filter(|one| one.hour / HOURS == hour / HOURS).map(|one| one.counts.saved).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(page: u64, computed: u64, saved_s: u64) -> PromptCounts {
        let metrics = ModelMetrics {
            lookup_tokens: page + 3 + computed,
            page_tokens: page,
            restored_tokens: [1, 2, 0],
            saved: Duration::from_secs(saved_s),
            ..ModelMetrics::default()
        };
        PromptCounts::sum([metrics].iter())
    }

    #[test]
    fn hours_have_the_differences_of_counts() {
        let mut counts = CountsByHour::default();
        counts.observe(100, total(10, 5, 1));
        counts.observe(100, total(12, 5, 1));
        counts.observe(101, total(12, 5, 1));
        counts.observe(103, total(20, 9, 1));
        let hours: Vec<_> = counts
            .hours()
            .iter()
            .map(|one| (one.hour, one.counts.page_tokens, one.counts.restored_tokens, one.counts.computed_tokens))
            .collect();
        assert_eq!(hours, [(100, 12, [1, 2, 0], 5), (103, 8, [0; 3], 4)], "hours without prompts are left out");
        counts.observe(124, total(20, 9, 1));
        let hours: Vec<_> = counts.hours().iter().map(|one| one.hour).collect();
        assert_eq!(hours, [103], "24 hours are kept");
    }

    #[test]
    fn models_are_added() {
        let model = |lookup_tokens, page_tokens| ModelMetrics { lookup_tokens, page_tokens, ..ModelMetrics::default() };
        let sum = PromptCounts::sum([model(10, 4), model(5, 5)].iter());
        assert_eq!((sum.page_tokens, sum.computed_tokens), (9, 6));
    }

    #[test]
    fn saved_time_is_counted_by_day() {
        let mut counts = CountsByHour::default();
        for (day, saved, today) in [(7, 5, 5), (7, 9, 9), (8, 9, 0), (8, 12, 3), (10, 20, 8)] {
            counts.observe(day * HOURS + 5, total(1, 1, saved));
            let found = counts.saved_on_day_of(day * HOURS + 23);
            assert_eq!(found, Duration::from_secs(today), "{saved} s in total on day {day}");
        }
    }
}
