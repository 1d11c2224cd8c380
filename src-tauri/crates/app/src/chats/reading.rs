//! Progress before the first token of an answer: the weights that a loaded model reads from the disk, then the prompt, with the
//! time that is left.

use std::time::Duration;

use cairn_chats::{ChatLine, PromptReading, WeightsLoading};
use cairn_runtime::PromptTokens;

/// Least progress of the weights, as a part of all of them.
const MIN_WEIGHTS_PART: u64 = 100;

/// Follows the progress. Estimates the time left from the speed since the first tokens were read.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Size of the weights, if the model was loaded for this answer.
    weights_bytes: Option<u64>,
    /// Mapped bytes of this process before the first step.
    mapped_before: Option<u64>,
    loading: Option<WeightsLoading>,
    /// The tokens before the first progress, and its time.
    first: Option<(usize, Duration)>,
    reading: Option<PromptReading>,
}

impl Progress {
    pub(super) fn new(weights_bytes: Option<u64>) -> Self {
        Self { weights_bytes, ..Self::default() }
    }

    /// Returns a line if there is progress at this time since some start. `mapped_bytes` returns the bytes of mapped files in
    /// memory, if the system reports them.
    pub(super) fn update(
        &mut self,
        tokens: PromptTokens,
        now: Duration,
        mapped_bytes: impl FnOnce() -> Option<u64>,
    ) -> Option<ChatLine> {
        let has_read = self.first.is_some_and(|(first, _)| tokens.ready > first);
        let loading = self.weights_bytes.filter(|_| !has_read).and_then(|total| self.load(total, mapped_bytes()?));
        let reading = self.read(tokens, now);
        loading.map(ChatLine::Loading).or(reading.map(ChatLine::Reading))
    }

    /// The progress of the weights, as long as the first step has not ended. Other models that are read meanwhile count too.
    fn load(&mut self, total_bytes: u64, mapped_bytes: u64) -> Option<WeightsLoading> {
        let before = *self.mapped_before.get_or_insert(mapped_bytes);
        let bytes = mapped_bytes.saturating_sub(before).min(total_bytes);
        let last = self.loading.map_or(0, |loading| loading.bytes);
        let is_new = bytes > last && bytes - last >= total_bytes / MIN_WEIGHTS_PART;
        is_new.then(|| *self.loading.insert(WeightsLoading { bytes, total_bytes }))
    }

    /// The progress of the prompt, if it has changed and the prompt is not complete. Tokens that are cached from the beginning
    /// tell nothing about the speed.
    fn read(&mut self, PromptTokens { ready, total }: PromptTokens, now: Duration) -> Option<PromptReading> {
        if total == 0 || ready >= total {
            return None;
        }
        let (first_ready, since) = *self.first.get_or_insert((ready, now));
        let read = ready.saturating_sub(first_ready);
        let left = (read > 0).then(|| now.saturating_sub(since).mul_f64((total - ready) as f64 / read as f64));
        let reading = PromptReading {
            tokens: ready as u64,
            total_tokens: total as u64,
            left_ms: left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
        };
        // The time alone is no progress: clients count it down.
        let counts = |reading: PromptReading| (reading.tokens, reading.total_tokens);
        let is_new = self.reading.is_none_or(|last| counts(last) != counts(reading));
        is_new.then(|| *self.reading.insert(reading))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Updates with ready tokens of 1000, one each second. Returns the tokens and the time left.
    fn readings(ready: &[usize]) -> Vec<Option<(u64, Option<u64>)>> {
        let mut progress = Progress::default();
        let update = |(at, ready): (usize, &usize)| {
            let tokens = PromptTokens { ready: *ready, total: 1000 };
            match progress.update(tokens, Duration::from_secs(at as u64), || None)? {
                ChatLine::Reading(reading) => Some((reading.tokens, reading.left_ms)),
                other => panic!("no other progress: {other:?}"),
            }
        };
        ready.iter().enumerate().map(update).collect()
    }

    #[test]
    fn time_left_follows_from_the_tokens_read_so_far() {
        let expected = [Some((600, None)), Some((700, Some(3000))), Some((900, Some(666))), None];
        assert_eq!(readings(&[600, 700, 900, 1000]), expected, "600 tokens were cached");
    }

    #[test]
    fn unchanged_progress_is_not_sent_again() {
        assert_eq!(readings(&[0, 0, 500, 500]), [Some((0, None)), None, Some((500, Some(2000))), None], "two changes");
    }

    #[test]
    fn prompt_without_length_has_no_progress() {
        let line = Progress::default().update(PromptTokens::default(), Duration::ZERO, || None);
        assert_eq!(line, None, "it is not admitted yet");
    }

    #[test]
    fn weights_are_loading_until_the_first_step_has_ended() {
        let mut progress = Progress::new(Some(1000));
        let mut update = |ready: usize, mapped: u64| {
            let tokens = PromptTokens { ready, total: 10 };
            match progress.update(tokens, Duration::from_secs(1), || Some(mapped)) {
                Some(ChatLine::Loading(loading)) => format!("{} of {}", loading.bytes, loading.total_bytes),
                Some(ChatLine::Reading(reading)) => format!("{} tokens", reading.tokens),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(update(0, 70), "0 tokens", "70 bytes are of other files");
        assert_eq!(update(0, 79), "None", "less than a hundredth");
        assert_eq!(update(0, 570), "500 of 1000");
        assert_eq!(update(0, 5000), "1000 of 1000", "another model is read, too");
        assert_eq!(update(4, 5000), "4 tokens", "the first step has ended");
        assert_eq!(Progress::default().update(PromptTokens { ready: 1, total: 1 }, Duration::ZERO, || Some(9)), None);
    }
}
