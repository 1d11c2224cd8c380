//! Stop strings: an answer ends before the first of them, and no part of one is shown, however it was cut into tokens.
//!
//! The first stop string is the one that ends first, and of those that end together the longest; so the outcome does not depend
//! on how the text arrived.

use crate::overlap::{held_bytes, take_front};

/// Lets an answer through up to a stop string.
#[derive(Debug, Clone, Default)]
pub struct StopFilter {
    stops: Vec<String>,
    /// The end of the text so far, which may become a stop string.
    held: String,
    stopped: bool,
}

impl StopFilter {
    /// A filter for these stop strings; empty ones are ignored.
    pub fn new(stops: impl IntoIterator<Item = impl Into<String>>) -> StopFilter {
        let stops = stops.into_iter().map(Into::into).filter(|stop: &String| !stop.is_empty()).collect();
        StopFilter { stops, ..StopFilter::default() }
    }

    /// The text that is certain to come before any stop string, and whether one was met. After that nothing comes through.
    pub fn push(&mut self, text: &str) -> (String, bool) {
        if self.stopped {
            return (String::new(), true);
        }
        self.held.push_str(text);
        let found = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str()).map(|at| (at + stop.len(), at)));
        if let Some((_, at)) = found.min() {
            self.stopped = true;
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let certain = self.held.len() - held_bytes(&self.held, self.stops.iter().map(String::as_str));
        (take_front(&mut self.held, certain), false)
    }

    /// The text held back, when the answer ended without a stop string.
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
                "{shown:?} shows a stop"
            );
        }
        (shown + &filter.finish(), stopped)
    }

    fn check(stops: &[&str], parts: &[&str], wanted: &str, stopped: bool) {
        assert_eq!(run(stops, parts), (wanted.to_owned(), stopped), "{parts:?} with {stops:?}");
    }

    #[test]
    fn stops_across_parts() {
        check(&["</s>"], &["hello <", "/s", "> more"], "hello ", true);
        check(&["</s>"], &["a </", "b"], "a </b", false);
        check(&["bcX", "c"], &["abcX"], "ab", true);
        check(&["b", "ab"], &["xab"], "x", true);
        check(&["stop"], &["st", "ill st"], "still st", false);
        check(&[""], &["a", "b"], "ab", false);
        check(&["\n\n"], &["a\n", "\nb", "c"], "a", true);
    }

    #[test]
    fn a_part_is_held_back_only_while_it_may_match() {
        let mut filter = StopFilter::new(["User:"]);
        assert_eq!(filter.push("hi Us"), ("hi ".to_owned(), false), "a beginning is held");
        assert_eq!(filter.push("e it"), ("Use it".to_owned(), false), "and let go");
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(
            stops in prop::collection::vec("[abé]{0,4}", 0..4),
            parts in prop::collection::vec("[abéc]{0,5}", 0..8),
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let whole = parts.concat();
            let (shown, stopped) = run(&stops, &parts);
            let at_once = run(&stops, &[&whole]);
            prop_assert_eq!(&(shown.clone(), stopped), &(at_once.0, at_once.1 || (whole.is_empty() && stopped)));
            prop_assert!(stopped || shown == whole, "without a stop everything comes through");
            prop_assert!(whole.starts_with(&shown), "nothing is changed");
        }
    }
}
