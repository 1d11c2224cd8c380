//! Stop strings: an answer ends before the first stop string. No part of a stop string is emitted, even if it spans
//! tokens.
//!
//! The first stop string is the one that ends first. Of those that end at the same byte, the longest wins. So the
//! result does not depend on how the text was split.

use crate::overlap::{partial_match_bytes, take_front};

/// Passes the text of an answer through up to the first stop string.
#[derive(Debug, Clone, Default)]
pub struct StopFilter {
    stops: Vec<String>,
    /// The last bytes of the text, which may be the start of a stop string.
    held: String,
    /// Index of the stop string that was found.
    found: Option<usize>,
}

impl StopFilter {
    /// Creates a filter. Empty stop strings are ignored.
    pub fn new(stops: impl IntoIterator<Item = impl Into<String>>) -> StopFilter {
        let stops = stops.into_iter().map(Into::into).filter(|stop: &String| !stop.is_empty()).collect();
        StopFilter { stops, ..StopFilter::default() }
    }

    /// Returns the text that is certain to precede any stop string, and whether a stop string was found. After a stop
    /// string, all further text is dropped.
    pub fn push(&mut self, text: &str) -> (String, bool) {
        if self.found.is_some() {
            return (String::new(), true);
        }
        self.held.push_str(text);
        let found = self.stops.iter().enumerate();
        let found =
            found.filter_map(|(index, stop)| self.held.find(stop.as_str()).map(|at| (at + stop.len(), at, index)));
        if let Some((_, at, index)) = found.min() {
            self.found = Some(index);
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let certain = self.held.len() - partial_match_bytes(&self.held, self.stops.iter().map(String::as_str));
        (take_front(&mut self.held, certain), false)
    }

    /// Returns the stop string that ended the answer.
    pub fn found(&self) -> Option<&str> {
        self.stops.get(self.found?).map(String::as_str)
    }

    /// Returns the buffered text at the end of an answer without a stop string.
    pub fn finish(self) -> String {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(stops: &[&str], parts: &[&str]) -> (String, bool) {
        let mut filter = StopFilter::new(stops.iter().copied());
        let mut shown = String::new();
        let mut stopped = false;
        for part in parts {
            let (text, now) = filter.push(part);
            shown += &text;
            stopped = now;
            assert!(
                stopped || stops.iter().all(|stop| stop.is_empty() || !shown.contains(stop)),
                "{shown:?} contains a stop string"
            );
        }
        (shown + &filter.finish(), stopped)
    }

    fn check(stops: &[&str], parts: &[&str], wanted: &str, stopped: bool) {
        assert_eq!(run(stops, parts), (wanted.to_owned(), stopped), "{parts:?} with {stops:?}");
    }

    #[test]
    fn stop_string_across_parts_ends_text() {
        check(&["</s>"], &["hello <", "/s", "> more"], "hello ", true);
        check(&["</s>"], &["a </", "b"], "a </b", false);
        check(&["bcX", "c"], &["abcX"], "ab", true);
        check(&["b", "ab"], &["xab"], "x", true);
        check(&["stop"], &["st", "ill st"], "still st", false);
        check(&[""], &["a", "b"], "ab", false);
        check(&["\n\n"], &["a\n", "\nb", "c"], "a", true);
    }

    #[test]
    fn partial_match_is_held_until_it_fails() {
        let mut filter = StopFilter::new(["User:"]);
        assert_eq!(filter.push("hi Us"), ("hi ".to_owned(), false), "the start of a stop string is held");
        assert_eq!(filter.push("e it"), ("Use it".to_owned(), false), "text that does not match is emitted");
    }

    proptest! {
        #[test]
        fn result_is_independent_of_chunk_boundaries(
            stops in prop::collection::vec("[abé]{0,4}", 0..4),
            parts in prop::collection::vec("[abéc]{0,5}", 0..8),
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let whole = parts.concat();
            let (shown, stopped) = run(&stops, &parts);
            let at_once = run(&stops, &[&whole]);
            prop_assert_eq!(&(shown.clone(), stopped), &(at_once.0, at_once.1 || (whole.is_empty() && stopped)));
            prop_assert!(stopped || shown == whole, "without a stop string all text is emitted");
            prop_assert!(whole.starts_with(&shown), "emitted text is a prefix of the input");
        }
    }
}
