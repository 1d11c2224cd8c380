//! Rate limit for repeated warnings: the first is printed, and later ones are counted.
//!
//! Many streams of one download often fail together and repeatedly. Their warnings differ only in the time to the
//! retry.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Least time between two lines for the same warning.
const REPEAT_INTERVAL: Duration = Duration::from_secs(5);
/// Most distinct warnings that are counted. The limit bounds memory, because the texts come from servers.
const MAX_KINDS: usize = 64;

#[derive(Default)]
pub(super) struct Repeats {
    kinds: BTreeMap<String, Kind>,
}

struct Kind {
    printed_at: Instant,
    suppressed: u32,
}

impl Repeats {
    /// Returns the line to print; `None` if the warning was printed less than [`REPEAT_INTERVAL`] ago.
    pub(super) fn line(&mut self, line: &str, now: Instant) -> Option<String> {
        let subject = subject(line);
        if let Some(kind) = self.kinds.get_mut(subject) {
            if now.saturating_duration_since(kind.printed_at) < REPEAT_INTERVAL {
                kind.suppressed += 1;
                return None;
            }
            let more = std::mem::take(&mut kind.suppressed);
            kind.printed_at = now;
            return Some(with_count(line, more));
        }
        if self.kinds.len() < MAX_KINDS {
            self.kinds.insert(subject.to_owned(), Kind { printed_at: now, suppressed: 0 });
        }
        Some(line.to_owned())
    }

    /// Returns lines for the warnings that were suppressed since their last line.
    pub(super) fn rest(&mut self) -> Vec<String> {
        let kinds = std::mem::take(&mut self.kinds);
        kinds
            .iter()
            .filter(|(_, kind)| kind.suppressed > 0)
            .map(|(subject, kind)| with_count(subject, kind.suppressed))
            .collect()
    }
}

/// Returns the part of a line before the last semicolon. The part after it has the time to the retry.
fn subject(line: &str) -> &str {
    line.rsplit_once("; ").map_or(line, |(subject, _)| subject)
}

fn with_count(line: &str, more: u32) -> String {
    match more {
        0 => line.to_owned(),
        1 => format!("{line} (once more meanwhile)"),
        more => format!("{line} ({more} times more meanwhile)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_warnings_are_suppressed_and_counted() {
        let mut repeats = Repeats::default();
        let begin = Instant::now();
        let mut line = |text: &str, seconds: u64| repeats.line(text, begin + Duration::from_secs(seconds));
        assert_eq!(
            line("nas: reset; trying again in 1 s", 0).as_deref(),
            Some("nas: reset; trying again in 1 s"),
            "new"
        );
        assert_eq!(line("nas: reset; trying again in 2 s", 1), None, "differs only in the time");
        assert_eq!(
            line("hub: reset; trying again in 2 s", 1).as_deref(),
            Some("hub: reset; trying again in 2 s"),
            "another source"
        );
        assert_eq!(line("nas: reset; trying again in 4 s", 2), None, "a repetition");
        let counted = line("nas: reset; trying again in 8 s", 6);
        assert_eq!(counted.as_deref(), Some("nas: reset; trying again in 8 s (2 times more meanwhile)"), "after 5 s");
        assert_eq!(line("nas: reset; trying again in 9 s", 7), None, "another repetition");
        assert_eq!(repeats.rest(), ["nas: reset (once more meanwhile)"], "the suppressed warnings at the end");
        assert!(repeats.rest().is_empty(), "they are returned once");
    }
}
