//! Tokens that are cut out of the text before anything else looks at it: control tokens such as `<|im_start|>`, where the
//! caller asks for that, and user-defined ones always.
//!
//! Where two could match, the longer one wins wherever it stands, then the one further left; that is what llama.cpp does, by
//! searching the whole text for each token in turn. Here all are searched for at once, and each cluster of overlapping finds is
//! settled by itself. A long run of blanks, of which every length is a token, has so many finds that nearly all lose; from
//! there on the tokens take turns. They do from the start where some take away the white space around them, as what was taken
//! away is not there for the tokens that come later.

use std::cmp::Reverse;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::error::Error;
use crate::strip::{StripRule, is_space};

/// A set of special tokens, ready to be searched for.
#[derive(Debug)]
pub(crate) struct SpecialTokens {
    finder: AhoCorasick,
    /// The id of each pattern of `finder`.
    ids: Vec<u32>,
    longest_bytes: usize,
    /// Texts with their patterns, those that win before those that lose to them.
    turns: Vec<(String, usize)>,
    strips: StripRule,
}

/// Tokens of at most this many bytes in all are searched for with a table of every step.
const SMALL_BYTES: usize = 1 << 14;

/// The longest special token that is cut out of texts, several times the longest in published vocabularies.
pub(crate) const LONGEST_BYTES: usize = 1024;

/// Finds of one cluster that are kept, some megabytes; a text of ordinary words has clusters of a handful.
const CROWD: usize = 1 << 16;

/// A part of a text: to be encoded, or a token already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(Range<usize>),
    Token(u32),
}

/// A token found at a place.
#[derive(Debug, Clone, Copy)]
struct Find {
    start: usize,
    end: usize,
    id: u32,
}

impl SpecialTokens {
    /// A set of the tokens given, without those that are empty or longer than [`LONGEST_BYTES`]; nothing when none are left.
    pub(crate) fn build(tokens: &[(u32, &str)], strips: StripRule) -> Result<Option<SpecialTokens>, Error> {
        let fitting = |(_, text): &&(u32, &str)| !text.is_empty() && text.len() <= LONGEST_BYTES;
        let tokens: Vec<(u32, &str)> = tokens.iter().filter(fitting).copied().collect();
        if tokens.is_empty() {
            return Ok(None);
        }
        let texts = tokens.iter().map(|&(_, text)| text);
        // The fastest automaton has a row of a kibibyte for each byte of the tokens, so it is only for few.
        let bytes: usize = texts.clone().map(str::len).sum();
        let kind = if bytes <= SMALL_BYTES { None } else { Some(AhoCorasickKind::ContiguousNFA) };
        let finder = AhoCorasick::builder().match_kind(MatchKind::Standard).kind(kind).build(texts.clone());
        let finder = finder.map_err(|error| Error::SpecialTokens { reason: error.to_string() })?;
        let patterns = tokens.iter().enumerate();
        let mut turns: Vec<(String, usize)> =
            patterns.map(|(pattern, &(_, text))| (text.to_owned(), pattern)).collect();
        // The tokens come by id, and the sort keeps their order where lengths are equal.
        turns.sort_by_key(|(text, _)| Reverse(text.len()));
        let longest_bytes = texts.map(str::len).max().unwrap_or(0);
        Ok(Some(SpecialTokens {
            finder,
            ids: tokens.iter().map(|&(id, _)| id).collect(),
            longest_bytes,
            turns,
            strips,
        }))
    }

    /// Calls `part` with the parts of `text`, in order.
    pub(crate) fn split(&self, text: &str, mut part: impl FnMut(Part)) {
        if self.strips != StripRule::Nothing && self.finder.is_match(text) {
            return self.split_by_turns(text, 0, &mut part);
        }
        let mut done = 0;
        let mut cluster: Vec<Find> = Vec::new();
        let mut cluster_end = 0;
        let mut settle = |cluster: &mut Vec<Find>, done: &mut usize| {
            for Find { start, end, id } in choose(cluster) {
                if start > *done {
                    part(Part::Text(*done..start));
                }
                part(Part::Token(id));
                *done = end;
            }
        };
        for found in self.finder.find_overlapping_iter(text) {
            // Finds come ordered by their end, and none is longer than the longest token, so nothing later can reach back
            // into a cluster that ended that long ago.
            if found.end().saturating_sub(self.longest_bytes) >= cluster_end {
                settle(&mut cluster, &mut done);
            }
            if cluster.len() >= CROWD {
                return self.split_by_turns(text, done, &mut part);
            }
            if let Some(&id) = self.ids.get(found.pattern().as_usize()) {
                cluster.push(Find { start: found.start(), end: found.end(), id });
                cluster_end = found.end();
            }
        }
        settle(&mut cluster, &mut done);
        if done < text.len() {
            part(Part::Text(done..text.len()));
        }
    }

    /// Which patterns stand anywhere in `text`.
    fn present(&self, text: &str) -> Vec<bool> {
        let mut present = vec![false; self.ids.len()];
        let mut missing = present.len();
        for found in self.finder.find_overlapping_iter(text) {
            if let Some(place) = present.get_mut(found.pattern().as_usize()).filter(|place| !**place) {
                *place = true;
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        present
    }

    /// The same for the text from `from` on, by looking for one token after the other in what those before left.
    fn split_by_turns(&self, text: &str, from: usize, part: &mut impl FnMut(Part)) {
        let whole = (from < text.len()).then_some(Part::Text(from..text.len()));
        let mut parts: Vec<Part> = whole.into_iter().collect();
        let present = self.present(text.get(from..).unwrap_or_default());
        for (token, pattern) in self.turns.iter().filter(|(_, pattern)| present.get(*pattern) == Some(&true)) {
            let Some(&id) = self.ids.get(*pattern) else { continue };
            let mut finer = Vec::with_capacity(parts.len());
            for part in parts {
                let Part::Text(range) = part else {
                    finer.push(part);
                    continue;
                };
                let strip = self.strips.strip(token);
                let mut done = range.start;
                for (at, _) in text.get(range.clone()).unwrap_or_default().match_indices(token.as_str()) {
                    let start = range.start + at;
                    // What the token before took away is not there for this one.
                    if start < done {
                        continue;
                    }
                    let space = if strip.left { trailing_space(text, done..start) } else { 0 };
                    if start - space > done {
                        finer.push(Part::Text(done..start - space));
                    }
                    finer.push(Part::Token(id));
                    done = start + token.len();
                    done += if strip.right { leading_space(text, done..range.end) } else { 0 };
                }
                if done < range.end {
                    finer.push(Part::Text(done..range.end));
                }
            }
            parts = finer;
        }
        parts.into_iter().for_each(part);
    }
}

fn leading_space(text: &str, range: Range<usize>) -> usize {
    let bytes = text.as_bytes().get(range).unwrap_or_default();
    bytes.iter().take_while(|&&byte| is_space(byte)).count()
}

fn trailing_space(text: &str, range: Range<usize>) -> usize {
    let bytes = text.as_bytes().get(range).unwrap_or_default();
    bytes.iter().rev().take_while(|&&byte| is_space(byte)).count()
}

/// Empties `cluster` and gives those finds that do not overlap a better one, from left to right.
fn choose(cluster: &mut Vec<Find>) -> Vec<Find> {
    cluster.sort_unstable_by_key(|find| (Reverse(find.end - find.start), find.id, find.start));
    let mut chosen: std::collections::BTreeMap<usize, Find> = std::collections::BTreeMap::new();
    for find in cluster.drain(..) {
        let free_before = chosen.range(..find.end).next_back().is_none_or(|(_, other)| other.end <= find.start);
        if free_before {
            chosen.insert(find.start, find);
        }
    }
    chosen.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rule as it is stated: the whole text is searched for each token, longest first.
    fn by_the_rule(tokens: &[(u32, &str)], text: &str) -> Vec<Part> {
        let mut tokens = tokens.to_vec();
        tokens.sort_by_key(|&(id, token)| (std::cmp::Reverse(token.len()), id));
        let mut parts = vec![Part::Text(0..text.len())];
        for (id, token) in tokens {
            let mut next = Vec::new();
            for part in parts {
                let Part::Text(range) = part else {
                    next.push(part);
                    continue;
                };
                let mut at = range.start;
                while let Some(found) = text[at..range.end].find(token) {
                    next.extend([Part::Text(at..at + found), Part::Token(id)]);
                    at += found + token.len();
                }
                next.push(Part::Text(at..range.end));
            }
            parts = next;
        }
        parts.retain(|part| !matches!(part, Part::Text(range) if range.is_empty()));
        parts
    }

    fn check(tokens: &[(u32, &str)], text: &str) {
        let set = SpecialTokens::build(tokens, StripRule::Nothing).expect("few tokens").expect("not empty");
        let (mut at_once, mut by_turns) = (Vec::new(), Vec::new());
        set.split(text, |part| at_once.push(part));
        assert_eq!(at_once, by_the_rule(tokens, text), "{tokens:?} in {text:?}");
        set.split_by_turns(text, 0, &mut |part| by_turns.push(part));
        assert_eq!(by_turns, at_once, "{tokens:?} in {text:?}, by turns");
    }

    #[test]
    fn the_longer_token_wins() {
        let tokens = [(0, "<a>"), (1, "<a><b>"), (2, "  "), (3, "    "), (4, "b><c"), (5, "b")];
        for text in ["", "x", "<a>", "<a><b>", "x<a><b>y<a>", "     ", "<a><b><c>", "b><cb", "<a><a><b><b"] {
            check(&tokens, text);
        }
    }

    #[test]
    fn white_space_is_taken_away() {
        let split = |strips, text: &str| {
            let tokens = [(0, "<mask>"), (1, "<|end|>"), (2, "  "), (3, "<s>")];
            let set = SpecialTokens::build(&tokens, strips).expect("few tokens").expect("not empty");
            let mut parts = Vec::new();
            set.split(text, |part| {
                parts.push(match part {
                    Part::Text(range) => text[range].to_owned(),
                    Part::Token(id) => id.to_string(),
                });
            });
            parts
        };
        let (mask, phi) = (StripRule::Mask("<mask>"), StripRule::Phi3);
        assert_eq!(split(mask, "a \t<mask> b<s> c"), ["a", "0", " b", "3", " c"], "in front of the mask only");
        assert_eq!(split(mask, "a   <mask>"), ["a", "0"], "nothing is left for a token of blanks");
        assert_eq!(split(phi, "a<|end|> \n b"), ["a", "1", "b"], "behind");
        assert_eq!(split(phi, "<s> a<|end|>   <|end|> "), ["3", " a", "1", "1"], "all of it");
        assert_eq!(split(phi, "a   b"), ["a", "2", "b"], "and only where there is a token");
    }

    #[test]
    fn no_tokens_no_set() {
        let long = "x".repeat(LONGEST_BYTES + 1);
        for tokens in [[].as_slice(), &[(0, "")], &[(0, &long)]] {
            let set = SpecialTokens::build(tokens, StripRule::Nothing).expect("nothing to build");
            assert!(set.is_none(), "an empty set is no set");
        }
    }

    proptest! {
        #[test]
        fn equal_to_the_rule(
            tokens in prop::collection::btree_set("[abé]{1,4}", 1..8),
            text in "[abcé]{0,40}",
        ) {
            let tokens: Vec<(u32, &str)> = (0..).zip(tokens.iter().map(String::as_str)).collect();
            check(&tokens, &text);
        }
    }
}
