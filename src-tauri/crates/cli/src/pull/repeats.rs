//! Lines of trouble that say again what was said a moment ago: told once, and counted until it is worth a line.
//!
//! Many streams of one download fail together and again and again, each with the same words and another time to wait.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The same trouble is told no more often than this.
const EVERY: Duration = Duration::from_secs(5);
/// Troubles that are told apart; a server chooses the words.
const MAX_KINDS: usize = 64;

#[derive(Default)]
pub(super) struct Repeats {
    kinds: BTreeMap<String, Kind>,
}

struct Kind {
    said: Instant,
    held_back: u32,
}

impl Repeats {
    /// The line to be said, if it is time for one.
    pub(super) fn line(&mut self, line: &str, now: Instant) -> Option<String> {
        let about = about(line);
        if let Some(kind) = self.kinds.get_mut(about) {
            if now.saturating_duration_since(kind.said) < EVERY {
                kind.held_back += 1;
                return None;
            }
            let more = std::mem::take(&mut kind.held_back);
            kind.said = now;
            return Some(counted(line, more));
        }
        if self.kinds.len() < MAX_KINDS {
            self.kinds.insert(about.to_owned(), Kind { said: now, held_back: 0 });
        }
        Some(line.to_owned())
    }

    /// What was held back and is not told otherwise.
    pub(super) fn rest(&mut self) -> Vec<String> {
        let kinds = std::mem::take(&mut self.kinds);
        kinds
            .iter()
            .filter(|(_, kind)| kind.held_back > 0)
            .map(|(about, kind)| counted(about, kind.held_back))
            .collect()
    }
}

/// What a line is about: all but what is done about it, where the time to wait is.
fn about(line: &str) -> &str {
    line.rsplit_once("; ").map_or(line, |(about, _)| about)
}

fn counted(line: &str, more: u32) -> String {
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
    fn the_same_is_said_once_and_counted() {
        let mut repeats = Repeats::default();
        let begin = Instant::now();
        let mut line = |text: &str, seconds: u64| repeats.line(text, begin + Duration::from_secs(seconds));
        assert_eq!(
            line("nas: reset; trying again in 1 s", 0).as_deref(),
            Some("nas: reset; trying again in 1 s"),
            "new"
        );
        assert_eq!(line("nas: reset; trying again in 2 s", 1), None, "the same but for the time");
        assert_eq!(
            line("hub: reset; trying again in 2 s", 1).as_deref(),
            Some("hub: reset; trying again in 2 s"),
            "other"
        );
        assert_eq!(line("nas: reset; trying again in 4 s", 2), None, "again");
        let said = line("nas: reset; trying again in 8 s", 6);
        assert_eq!(said.as_deref(), Some("nas: reset; trying again in 8 s (2 times more meanwhile)"), "after a while");
        assert_eq!(line("nas: reset; trying again in 9 s", 7), None, "and again");
        assert_eq!(repeats.rest(), ["nas: reset (once more meanwhile)"], "what is left at the end");
        assert!(repeats.rest().is_empty(), "once");
    }
}
