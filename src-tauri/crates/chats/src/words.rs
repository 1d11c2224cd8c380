//! Searches as expressions of the index, and snippets. `cairn-words` divides texts into words.

use std::ops::Range;

pub(crate) use cairn_words::{Indexed, indexed};
use cairn_words::{Run, pairs, runs};

/// Limits of a search. A pasted text is found by its beginning.
const MAX_WORDS: usize = 32;
const MAX_WORD_CHARS: usize = 64;

/// Returns the distinct runs of a search, within the limits.
fn search_runs(search: &str) -> Vec<Run<'_>> {
    let shortened = |text: &str| text.char_indices().nth(MAX_WORD_CHARS).map_or(text.len(), |(at, _)| at);
    let mut distinct: Vec<Run<'_>> = Vec::new();
    for (_, run) in runs(search) {
        let run = match run {
            Run::Word(word) => Run::Word(&word[..shortened(word)]),
            Run::Dense(run) => Run::Dense(&run[..shortened(run)]),
        };
        if distinct.len() == MAX_WORDS {
            break;
        }
        if !distinct.contains(&run) {
            distinct.push(run);
        }
    }
    distinct
}

/// Lengths of indexed prefixes in characters, as in the `prefix` option of `schema`.
const INDEXED_PREFIXES: std::ops::RangeInclusive<usize> = 2..=3;

/// Returns an FTS5 expression for texts with all words of a search, as prefixes; `None` if the search has no words. Each word is
/// quoted, so that it contains no operators.
pub(crate) fn expression(search: &str) -> Option<String> {
    expression_with(search, |word| word)
}

/// Returns a faster expression that matches a superset of the texts: words are cut to the longest indexed prefix. `None` if no
/// word is longer.
pub(crate) fn short_prefix_expression(search: &str) -> Option<String> {
    let is_long = |run| matches!(run, Run::Word(word) if indexed_prefix(word) != word);
    if search_runs(search).into_iter().any(is_long) { expression_with(search, indexed_prefix) } else { None }
}

/// Cuts a word to the longest indexed prefix.
fn indexed_prefix(word: &str) -> &str {
    word.char_indices().nth(*INDEXED_PREFIXES.end()).map_or(word, |(at, _)| &word[..at])
}

/// Joins all runs of a search to one expression. `prefix_of` cuts words of scripts with spaces.
fn expression_with(search: &str, prefix_of: impl Fn(&str) -> &str) -> Option<String> {
    let parts: Vec<String> = search_runs(search)
        .into_iter()
        .map(|run| match run {
            Run::Word(word) => prefix_expression(prefix_of(word)),
            Run::Dense(run) if run.chars().count() == 1 => format!("singles : \"{run}\""),
            Run::Dense(run) => format!("words : \"{}\"", pairs(run).collect::<Vec<_>>().join(" ")),
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(" AND "))
}

/// Returns an expression for words with a prefix. Two ASCII characters are an indexed prefix, but for one FTS5 would collect all
/// matches; so one character becomes all its two-character prefixes. Letters with diacritics are indexed without them.
fn prefix_expression(prefix: &str) -> String {
    let [letter] = prefix.as_bytes() else { return format!("words : \"{prefix}\" *") };
    let letter = char::from(letter.to_ascii_lowercase());
    let two: String = ('a'..='z').chain('0'..='9').map(|next| format!(" OR \"{letter}{next}\" *")).collect();
    format!("words : (\"{letter}\"{two})")
}

/// Returns the runs of a search in lower case.
pub(crate) fn search_words(search: &str) -> Vec<String> {
    search_runs(search).into_iter().map(|(Run::Word(run) | Run::Dense(run))| run.to_lowercase()).collect()
}

/// Returns whether a text contains all of these words, as prefixes. Diacritics are significant here.
pub(crate) fn contains_all(text: &str, words: &[String]) -> bool {
    words.iter().all(|wanted| {
        runs(text).any(|(_, run)| match run {
            Run::Word(word) => prefix_len(word, wanted).is_some(),
            Run::Dense(run) => run.contains(wanted.as_str()),
        })
    })
}

/// Short part of a text around the first match, with the byte ranges of all matches in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snippet {
    /// The part, on one line.
    pub(crate) text: String,
    /// Byte ranges of the matches, ascending and disjoint.
    pub(crate) ranges: Vec<Range<usize>>,
}

/// Characters of a snippet before its first match.
const CHARS_BEFORE_MATCH: usize = 40;
/// Maximum length of a snippet in characters.
const MAX_SNIPPET_CHARS: usize = 160;

/// Returns the snippet of a text for a search.
pub(crate) fn snippet(text: &str, search: &str) -> Snippet {
    let words = search_words(search);
    let first = matches_of(text, &words).next().map_or(0, |range| range.start);
    let before = text[..first].char_indices().rev().take(CHARS_BEFORE_MATCH).last().map_or(first, |(at, _)| at);
    let end = text[before..].char_indices().nth(MAX_SNIPPET_CHARS).map_or(text.len(), |(at, _)| before + at);
    let line: String = text[before..end].chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let (cut_before, cut_after) = (if before > 0 { "…" } else { "" }, if end < text.len() { "…" } else { "" });
    let text = format!("{cut_before}{line}{cut_after}");
    let ranges = matches_of(&text, &words).collect();
    Snippet { text, ranges }
}

/// Returns the byte ranges of words that start with one of these words, and of occurrences in dense runs.
fn matches_of<'a>(text: &'a str, words: &'a [String]) -> impl Iterator<Item = Range<usize>> + 'a {
    runs(text).flat_map(move |(at, run)| {
        let mut ranges: Vec<Range<usize>> = words
            .iter()
            .flat_map(|word| match run {
                Run::Word(run) => prefix_len(run, word).map(|length| at..at + length).into_iter().collect::<Vec<_>>(),
                Run::Dense(run) => {
                    run.match_indices(word.as_str()).map(|(in_run, _)| at + in_run..at + in_run + word.len()).collect()
                }
            })
            .collect();
        ranges.sort_by_key(|range| (range.start, range.end));
        // Overlapping matches of two words are merged.
        let mut disjoint: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            match disjoint.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => disjoint.push(range),
            }
        }
        disjoint
    })
}

/// Returns the byte length of the prefix of `text` that equals `prefix`, ignoring case; `None` if there is none. `prefix` is in
/// lower case.
fn prefix_len(text: &str, prefix: &str) -> Option<usize> {
    let mut left = prefix.chars().peekable();
    for (at, c) in text.char_indices() {
        if left.peek().is_none() {
            return Some(at);
        }
        for lower in c.to_lowercase() {
            if left.next() != Some(lower) {
                return None;
            }
        }
    }
    left.peek().is_none().then_some(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn search_words_are_quoted_in_expressions() {
        let check = |search: &str, expected: Option<&str>| {
            assert_eq!(expression(search).as_deref(), expected, "{search:?}");
        };
        check("pull mod", Some("words : \"pull\" * AND words : \"mod\" *"));
        check("模型", Some("words : \"模型\""));
        check("我们吃", Some("words : \"我们 们吃\""));
        check("茶", Some("singles : \"茶\""));
        check("ab\" OR cd", Some("words : \"ab\" * AND words : \"OR\" * AND words : \"cd\" *"));
        check("!?", None);
        let letter = expression("G").expect("a word");
        assert!(
            letter.starts_with("words : (\"g\" OR \"ga\" * OR \"gb\" *"),
            "one letter becomes all prefixes of two: {letter}"
        );
    }

    #[test]
    fn long_prefixes_are_cut_to_indexed_length() {
        let check = |search: &str, expected: Option<&str>| {
            assert_eq!(short_prefix_expression(search).as_deref(), expected, "{search:?}")
        };
        check("granite gr 模型", Some("words : \"gra\" * AND words : \"gr\" * AND words : \"模型\""));
        check("über", Some("words : \"übe\" *"));
        check("gra 模型", None);
        check("", None);
    }

    #[test]
    fn snippet_marks_all_matches() {
        let check = |text: &str, search: &str, expected: &str| {
            let Snippet { text, ranges } = snippet(text, search);
            let mut marked = text.clone();
            for range in ranges.iter().rev() {
                marked.insert(range.end, ']');
                marked.insert(range.start, '[');
            }
            assert_eq!(marked, expected, "{search:?}");
        };
        check("Pull the model\nthen run it", "model PULL", "[Pull] the [model] then run it");
        check("Modelling is no pulling", "pull model", "[Model]ling is no [pull]ing");
        check("我们今天吃饭", "吃饭", "我们今天[吃饭]");
        check("我们今天吃饭", "今天吃 吃饭", "我们[今天吃饭]");
        check("Nothing", "else", "Nothing");
        let long = format!("{}needle{}", "hay ".repeat(50), " hay".repeat(100));
        let cut = snippet(&long, "needle");
        assert!(cut.text.starts_with('…') && cut.text.ends_with('…'), "both ends are cut: {}", cut.text);
        assert!(cut.text.chars().count() <= MAX_SNIPPET_CHARS + 2, "the snippet is short: {}", cut.text);
        assert_eq!(cut.ranges.len(), 1, "the match is included");
    }

    proptest! {
        #[test]
        fn snippets_of_any_text_have_valid_ranges(text in ".{0,300}", search in ".{0,20}") {
            let snippet = snippet(&text, &search);
            for range in snippet.ranges {
                prop_assert!(snippet.text.get(range).is_some(), "ranges are at character boundaries");
            }
            let _ = (indexed(&text), expression(&search));
        }
    }
}
