//! Splits special tokens off a text before it is encoded: user-defined tokens always, control tokens such as
//! `<|im_start|>` only if the caller requests it.
//!
//! Of overlapping matches the longest wins, then the leftmost, as in llama.cpp, which searches the whole text for one
//! token after the other. This module searches for all tokens at once and resolves each cluster of overlapping matches
//! separately. A long run of blanks, of which every length is a token, has too many matches; from there on it searches
//! for one token after the other. It does so from the start if tokens strip the white space around them, because later
//! tokens cannot match stripped text.

use std::cmp::Reverse;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::error::Error;
use crate::strip::{StripRule, is_space};

/// Searcher for a set of special tokens.
#[derive(Debug)]
pub(crate) struct SpecialTokens {
    finder: AhoCorasick,
    /// The id of each pattern of `finder`.
    ids: Vec<u32>,
    longest_bytes: usize,
    /// Texts with their patterns, longest first.
    by_length: Vec<(String, usize)>,
    strip_rule: StripRule,
}

/// Up to this total size of all tokens, the searcher is a DFA.
const SMALL_BYTES: usize = 1 << 14;

/// Maximum size of a special token, several times the longest in published vocabularies.
pub(crate) const MAX_TOKEN_BYTES: usize = 1024;

/// Maximum number of matches in one cluster, some megabytes. Normal text has a few matches per cluster.
const MAX_CLUSTER_MATCHES: usize = 1 << 16;

/// Part of a text: text to encode, or a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(Range<usize>),
    Token(u32),
}

/// Match of a token.
#[derive(Debug, Clone, Copy)]
struct Match {
    start: usize,
    end: usize,
    id: u32,
}

impl SpecialTokens {
    /// Builds the searcher. Skips tokens that are empty or longer than [`MAX_TOKEN_BYTES`]. Returns `None` if no tokens
    /// are left.
    pub(crate) fn build(tokens: &[(u32, &str)], strip_rule: StripRule) -> Result<Option<SpecialTokens>, Error> {
        let fitting = |(_, text): &&(u32, &str)| !text.is_empty() && text.len() <= MAX_TOKEN_BYTES;
        let tokens: Vec<(u32, &str)> = tokens.iter().filter(fitting).copied().collect();
        if tokens.is_empty() {
            return Ok(None);
        }
        let texts = tokens.iter().map(|&(_, text)| text);
        // The DFA takes 1 KiB for each byte of the tokens, so it is only used for few tokens.
        let bytes: usize = texts.clone().map(str::len).sum();
        let kind = if bytes <= SMALL_BYTES { None } else { Some(AhoCorasickKind::ContiguousNFA) };
        let finder = AhoCorasick::builder().match_kind(MatchKind::Standard).kind(kind).build(texts.clone());
        let finder = finder.map_err(|error| Error::SpecialTokens { reason: error.to_string() })?;
        let patterns = tokens.iter().enumerate();
        let mut by_length: Vec<(String, usize)> =
            patterns.map(|(pattern, &(_, text))| (text.to_owned(), pattern)).collect();
        // Tokens are ordered by id, and the sort is stable for equal lengths.
        by_length.sort_by_key(|(text, _)| Reverse(text.len()));
        let longest_bytes = texts.map(str::len).max().unwrap_or(0);
        Ok(Some(SpecialTokens {
            finder,
            ids: tokens.iter().map(|&(id, _)| id).collect(),
            longest_bytes,
            by_length,
            strip_rule,
        }))
    }

    /// Calls `part` with the parts of `text`, in order.
    pub(crate) fn split(&self, text: &str, mut part: impl FnMut(Part)) {
        if self.strip_rule != StripRule::Nothing && self.finder.is_match(text) {
            return self.split_sequentially(text, 0, &mut part);
        }
        let mut done = 0;
        let mut cluster: Vec<Match> = Vec::new();
        let mut cluster_end = 0;
        let mut resolve = |cluster: &mut Vec<Match>, done: &mut usize| {
            for Match { start, end, id } in choose(cluster) {
                if start > *done {
                    part(Part::Text(*done..start));
                }
                part(Part::Token(id));
                *done = end;
            }
        };
        for found in self.finder.find_overlapping_iter(text) {
            // Matches are ordered by their end, and none is longer than the longest token. So no later match can
            // overlap a cluster that ended before this match could start.
            if found.end().saturating_sub(self.longest_bytes) >= cluster_end {
                resolve(&mut cluster, &mut done);
            }
            if cluster.len() >= MAX_CLUSTER_MATCHES {
                return self.split_sequentially(text, done, &mut part);
            }
            if let Some(&id) = self.ids.get(found.pattern().as_usize()) {
                cluster.push(Match { start: found.start(), end: found.end(), id });
                cluster_end = found.end();
            }
        }
        resolve(&mut cluster, &mut done);
        if done < text.len() {
            part(Part::Text(done..text.len()));
        }
    }

    /// Returns which patterns occur in `text`.
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

    /// Splits the text from `from` on by a search for one token after the other.
    fn split_sequentially(&self, text: &str, from: usize, part: &mut impl FnMut(Part)) {
        let whole = (from < text.len()).then_some(Part::Text(from..text.len()));
        let mut parts: Vec<Part> = whole.into_iter().collect();
        let present = self.present(text.get(from..).unwrap_or_default());
        for (token, pattern) in self.by_length.iter().filter(|(_, pattern)| present.get(*pattern) == Some(&true)) {
            let Some(&id) = self.ids.get(*pattern) else { continue };
            let mut finer = Vec::with_capacity(parts.len());
            for part in parts {
                let Part::Text(range) = part else {
                    finer.push(part);
                    continue;
                };
                let strip = self.strip_rule.strip(token);
                let mut done = range.start;
                for (at, _) in text.get(range.clone()).unwrap_or_default().match_indices(token.as_str()) {
                    let start = range.start + at;
                    // The previous match stripped this text.
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

/// Drains `cluster` and returns the matches that do not overlap a better one, from left to right.
fn choose(cluster: &mut Vec<Match>) -> Vec<Match> {
    cluster.sort_unstable_by_key(|found| (Reverse(found.end - found.start), found.id, found.start));
    let mut chosen: std::collections::BTreeMap<usize, Match> = std::collections::BTreeMap::new();
    for found in cluster.drain(..) {
        let free_before = chosen.range(..found.end).next_back().is_none_or(|(_, other)| other.end <= found.start);
        if free_before {
            chosen.insert(found.start, found);
        }
    }
    chosen.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reference implementation: searches the whole text for one token after the other, longest first.
    fn reference(tokens: &[(u32, &str)], text: &str) -> Vec<Part> {
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
        assert_eq!(at_once, reference(tokens, text), "{tokens:?} in {text:?}");
        set.split_sequentially(text, 0, &mut |part| by_turns.push(part));
        assert_eq!(by_turns, at_once, "{tokens:?} in {text:?}, by by_length");
    }

    #[test]
    fn longest_token_wins() {
        let tokens = [(0, "<a>"), (1, "<a><b>"), (2, "  "), (3, "    "), (4, "b><c"), (5, "b")];
        for text in ["", "x", "<a>", "<a><b>", "x<a><b>y<a>", "     ", "<a><b><c>", "b><cb", "<a><a><b><b"] {
            check(&tokens, text);
        }
    }

    #[test]
    fn white_space_is_stripped_by_rule() {
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
        assert_eq!(split(mask, "a \t<mask> b<s> c"), ["a", "0", " b", "3", " c"], "left of the mask only");
        assert_eq!(split(mask, "a   <mask>"), ["a", "0"], "stripped blanks match no token");
        assert_eq!(split(phi, "a<|end|> \n b"), ["a", "1", "b"], "right of the token");
        assert_eq!(split(phi, "<s> a<|end|>   <|end|> "), ["3", " a", "1", "1"], "all white space");
        assert_eq!(split(phi, "a   b"), ["a", "2", "b"], "white space without a token stays");
    }

    #[test]
    fn special_tokens_without_usable_entry_are_none() {
        let long = "x".repeat(MAX_TOKEN_BYTES + 1);
        for tokens in [[].as_slice(), &[(0, "")], &[(0, &long)]] {
            let set = SpecialTokens::build(tokens, StripRule::Nothing).expect("nothing to build");
            assert!(set.is_none(), "no tokens are left");
        }
    }

    proptest! {
        #[test]
        fn special_token_split_equals_reference_implementation(
            tokens in prop::collection::btree_set("[abé]{1,4}", 1..8),
            text in "[abcé]{0,40}",
        ) {
            let tokens: Vec<(u32, &str)> = (0..).zip(tokens.iter().map(String::as_str)).collect();
            check(&tokens, &text);
        }
    }
}
