//! Division of texts into words, for full-text indexes and searches.
//!
//! Most scripts separate words by spaces. Chinese, Japanese and Korean texts do not, or not at the places where a search needs it,
//! and a dictionary would miss names. A run of such characters is therefore indexed twice: as pairs of neighbours in the order of
//! the text, so that a phrase of pairs matches exactly the run, and as single characters, for searches of one character.
//!
//! **Invariants:** the same text is always divided in the same way. Indexes on disk depend on that.
#![forbid(unsafe_code)]

/// Index columns of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexed {
    /// Words, and pairs of neighbours, in the order of the text.
    pub words: String,
    /// Single characters of scripts without spaces.
    pub singles: String,
}

/// Run of characters of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run<'a> {
    /// Word of a script with spaces.
    Word(&'a str),
    /// Characters of a script without spaces.
    Dense(&'a str),
}

/// Returns whether the character belongs to a script without spaces, by <https://www.unicode.org/Public/UNIDATA/Blocks.txt>.
#[must_use]
pub fn is_dense(c: char) -> bool {
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
        // The middle dot and the double hyphen separate words.
        && !matches!(c, '\u{30fb}' | '\u{30a0}')
}

/// Returns the runs of a text, with their byte offsets.
pub fn runs(text: &str) -> impl Iterator<Item = (usize, Run<'_>)> {
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

/// Returns the index columns of a text.
#[must_use]
pub fn indexed(text: &str) -> Indexed {
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

/// Returns all pairs of neighbouring characters.
pub fn pairs(run: &str) -> impl Iterator<Item = &str> {
    let ends = run.char_indices().map(|(at, c)| at + c.len_utf8()).skip(1);
    run.char_indices().zip(ends).map(|((at, _), end)| &run[at..end])
}

/// Returns the percentage of letters and digits that belong to scripts without spaces; 0 for a text without letters and digits.
#[must_use]
pub fn dense_percent(text: &str) -> u8 {
    let (mut dense, mut all) = (0_usize, 0_usize);
    for c in text.chars() {
        let is_dense = is_dense(c);
        dense += usize::from(is_dense);
        all += usize::from(is_dense || c.is_alphanumeric());
    }
    u8::try_from((dense * 100).checked_div(all).unwrap_or(0)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_runs_are_indexed_as_pairs_and_single_characters() {
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
    fn percentage_counts_letters_and_digits() {
        let check = |text: &str, percent: u8| assert_eq!(dense_percent(text), percent, "{text:?}");
        check("", 0);
        check(" .,!? ", 0);
        check("plain words, 100 of them", 0);
        check("我们吃饭。", 100);
        check("ab我们", 50);
        check("model 模型", 28);
    }
}
