//! Texts as words, so that a search finds what a person would.
//!
//! Most scripts part words by blanks. Chinese, Japanese and Korean texts do not, or not where a search would need it, and a
//! dictionary would be wrong about names. A run of such characters is therefore indexed twice: each pair of neighbours in the
//! order of the text, so that a phrase of pairs is exactly the run, and each character for itself, for searches of one.

use std::ops::Range;

/// What of a text goes into the index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Indexed {
    /// Words, and pairs of neighbours, in the order of the text.
    pub(crate) words: String,
    /// Characters that stand for themselves.
    pub(crate) singles: String,
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run<'a> {
    /// A word of a script with blanks.
    Word(&'a str),
    /// Characters of a script without.
    Dense(&'a str),
}

/// Is it a character of a script whose words are not parted? Blocks after <https://www.unicode.org/Public/UNIDATA/Blocks.txt>.
fn is_dense(c: char) -> bool {
    matches!(c,
        '\u{2e80}'..='\u{2fdf}'   // radicals
        | '\u{3005}'..='\u{3007}' // iteration mark, closing mark, zero
        | '\u{3041}'..='\u{30ff}' // Hiragana, Katakana
        | '\u{3100}'..='\u{312f}' // Bopomofo
        | '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{ac00}'..='\u{d7af}' // Hangul
        | '\u{31a0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' // ideographs
        | '\u{ff66}'..='\u{ff9f}' // half-width Katakana
        | '\u{20000}'..='\u{3ffff}')
        // The middle dot and the double hyphen part words.
        && !matches!(c, '\u{30fb}' | '\u{30a0}')
}

fn runs(text: &str) -> impl Iterator<Item = (usize, Run<'_>)> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let from = rest + text[rest..].find(|c: char| c.is_alphanumeric() || is_dense(c))?;
        let first = text[from..].chars().next()?;
        let belongs = |c: char| is_dense(c) == is_dense(first) && (is_dense(c) || c.is_alphanumeric());
        let length = text[from..].find(|c: char| !belongs(c)).unwrap_or(text.len() - from);
        rest = from + length;
        let run = &text[from..rest];
        Some((from, if is_dense(first) { Run::Dense(run) } else { Run::Word(run) }))
    })
}

/// The most words of a search that are looked for, and the most characters of each: a text that was pasted is found by its beginning.
const MOST_WORDS: usize = 32;
const MOST_CHARS: usize = 64;

/// What a search looks for.
fn searched(search: &str) -> Vec<Run<'_>> {
    let shortened = |text: &str| text.char_indices().nth(MOST_CHARS).map_or(text.len(), |(at, _)| at);
    let mut searched: Vec<Run<'_>> = Vec::new();
    for (_, run) in runs(search) {
        let run = match run {
            Run::Word(word) => Run::Word(&word[..shortened(word)]),
            Run::Dense(run) => Run::Dense(&run[..shortened(run)]),
        };
        if searched.len() == MOST_WORDS {
            break;
        }
        if !searched.contains(&run) {
            searched.push(run);
        }
    }
    searched
}

/// What of a text goes into the index.
pub(crate) fn indexed(text: &str) -> Indexed {
    let mut indexed = Indexed::default();
    let push = |to: &mut String, word: &str| {
        if !to.is_empty() {
            to.push(' ');
        }
        to.push_str(word);
    };
    for (_, run) in runs(text) {
        match run {
            Run::Word(word) => push(&mut indexed.words, word),
            Run::Dense(run) => {
                pairs(run).for_each(|pair| push(&mut indexed.words, pair));
                run.char_indices().for_each(|(at, c)| push(&mut indexed.singles, &run[at..at + c.len_utf8()]));
            }
        }
    }
    indexed
}

/// Each two characters that are neighbours.
fn pairs(run: &str) -> impl Iterator<Item = &str> {
    let ends = run.char_indices().map(|(at, c)| at + c.len_utf8()).skip(1);
    run.char_indices().zip(ends).map(|((at, _), end)| &run[at..end])
}

/// How long the beginnings of words are that the index keeps, in characters; `schema` says it to SQLite.
const KEPT_BEGINNINGS: std::ops::RangeInclusive<usize> = 2..=3;

/// An expression of FTS5 that finds texts with all words of a search, the beginnings of words among them; none where it has
/// no words. Each word is quoted, so that nothing in it is an operator.
pub(crate) fn expression(search: &str) -> Option<String> {
    joined(search, |word| word)
}

/// An expression that finds a few texts more, and at once: of beginnings that are longer than those that the index keeps, only
/// as much is looked for. None where there are no such.
pub(crate) fn likely(search: &str) -> Option<String> {
    let is_long = |run| matches!(run, Run::Word(word) if kept(word) != word);
    if searched(search).into_iter().any(is_long) { joined(search, kept) } else { None }
}

/// As much of a word's beginning as the index keeps.
fn kept(word: &str) -> &str {
    word.char_indices().nth(*KEPT_BEGINNINGS.end()).map_or(word, |(at, _)| &word[..at])
}

/// All parts of a search as one expression; of words in scripts with blanks, the beginnings that `beginning` takes of them.
fn joined(search: &str, beginning: impl Fn(&str) -> &str) -> Option<String> {
    let parts: Vec<String> = searched(search)
        .into_iter()
        .map(|run| match run {
            Run::Word(word) => begins(beginning(word)),
            Run::Dense(run) if run.chars().count() == 1 => format!("singles : \"{run}\""),
            Run::Dense(run) => format!("words : \"{}\"", pairs(run).collect::<Vec<_>>().join(" ")),
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(" AND "))
}

/// Words that begin so. The index knows at once where two letters or digits of ASCII begin a word, but for one it would gather all.
/// Letters with marks are indexed without.
fn begins(beginning: &str) -> String {
    let [letter] = beginning.as_bytes() else { return format!("words : \"{beginning}\" *") };
    let letter = char::from(letter.to_ascii_lowercase());
    let two: String = ('a'..='z').chain('0'..='9').map(|next| format!(" OR \"{letter}{next}\" *")).collect();
    format!("words : (\"{letter}\"{two})")
}

/// The words of a search, in lower case.
pub(crate) fn wanted(search: &str) -> Vec<String> {
    searched(search).into_iter().map(|(Run::Word(run) | Run::Dense(run))| run.to_lowercase()).collect()
}

/// Has a text all of these words, or words that begin so? A letter with a mark is another one here.
pub(crate) fn has_all(text: &str, wanted: &[String]) -> bool {
    wanted.iter().all(|wanted| {
        runs(text).any(|(_, run)| match run {
            Run::Word(word) => starts_with(word, wanted).is_some(),
            Run::Dense(run) => run.contains(wanted.as_str()),
        })
    })
}

/// A short part of a text around the first word that was searched for, and where in it such words are, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The part, on one line.
    pub text: String,
    /// Where the words are, one after the other.
    pub ranges: Vec<Range<usize>>,
}

/// Characters of a snippet before its first word.
const BEFORE: usize = 40;
/// Characters of a whole snippet.
const LONGEST: usize = 160;

/// The snippet of a text for a search.
pub(crate) fn snippet(text: &str, search: &str) -> Snippet {
    let wanted = wanted(search);
    let first = found(text, &wanted).next().map_or(0, |range| range.start);
    let before = text[..first].char_indices().rev().take(BEFORE).last().map_or(first, |(at, _)| at);
    let end = text[before..].char_indices().nth(LONGEST).map_or(text.len(), |(at, _)| before + at);
    let line: String = text[before..end].chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let (cut_before, cut_after) = (if before > 0 { "…" } else { "" }, if end < text.len() { "…" } else { "" });
    let text = format!("{cut_before}{line}{cut_after}");
    let ranges = found(&text, &wanted).collect();
    Snippet { text, ranges }
}

/// Where a text has words that begin with one of these, or runs that contain one.
fn found<'a>(text: &'a str, wanted: &'a [String]) -> impl Iterator<Item = Range<usize>> + 'a {
    runs(text).flat_map(move |(at, run)| {
        let mut ranges: Vec<Range<usize>> = wanted
            .iter()
            .flat_map(|word| match run {
                Run::Word(run) => starts_with(run, word).map(|length| at..at + length).into_iter().collect::<Vec<_>>(),
                Run::Dense(run) => {
                    run.match_indices(word.as_str()).map(|(in_run, _)| at + in_run..at + in_run + word.len()).collect()
                }
            })
            .collect();
        ranges.sort_by_key(|range| (range.start, range.end));
        // What two words of a search have in common is marked once.
        let mut apart: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            match apart.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => apart.push(range),
            }
        }
        apart
    })
}

/// How many bytes of a text are the same letters as `start`, which is in lower case; none where it begins otherwise.
fn starts_with(text: &str, start: &str) -> Option<usize> {
    let mut left = start.chars().peekable();
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
    fn dense_runs_are_pairs_and_singles() {
        let check = |text: &str, words: &str, singles: &str| {
            let expected = Indexed { words: words.to_owned(), singles: singles.to_owned() };
            assert_eq!(indexed(text), expected, "{text:?}");
        };
        check("Hello, big world!", "Hello big world", "");
        check("我们吃饭", "我们 们吃 吃饭", "我 们 吃 饭");
        check("用Rust写", "Rust", "用 写");
        check("東京タワー・高い", "東京 京タ タワ ワー 高い", "東 京 タ ワ ー 高 い");
        check("한국어 책", "한국 국어", "한 국 어 책");
        check("", "", "");
    }

    #[test]
    fn searches_are_quoted() {
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
            "one letter is many beginnings of two: {letter}"
        );
    }

    #[test]
    fn long_beginnings_are_cut_to_what_the_index_keeps() {
        let check =
            |search: &str, expected: Option<&str>| assert_eq!(likely(search).as_deref(), expected, "{search:?}");
        check("granite gr 模型", Some("words : \"gra\" * AND words : \"gr\" * AND words : \"模型\""));
        check("über", Some("words : \"übe\" *"));
        check("gra 模型", None);
        check("", None);
    }

    #[test]
    fn snippets_mark_what_was_searched_for() {
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
        assert!(cut.text.chars().count() <= LONGEST + 2, "it is short: {}", cut.text);
        assert_eq!(cut.ranges.len(), 1, "the word is in it");
    }

    proptest! {
        #[test]
        fn any_text_and_search_will_do(text in ".{0,300}", search in ".{0,20}") {
            let snippet = snippet(&text, &search);
            for range in snippet.ranges {
                prop_assert!(snippet.text.get(range).is_some(), "marks are at characters");
            }
            let _ = (indexed(&text), expression(&search));
        }
    }
}
