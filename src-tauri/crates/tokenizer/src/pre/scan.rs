//! Hand-written splitters: for the three patterns that most models use (GPT-2, Llama 3 and Qwen 2), and for patterns
//! with quadratic time in a regex engine.
//!
//! Each returns the length of the first word of the rest. They equal these patterns, which tests verify:
//! - GPT-2: `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
//! - words: `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,k}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
//!   with k = 3 (Llama 3) or 1 (Qwen 2), the letters of the contractions in ASCII only, and marks counted as letters or
//!   not.

use std::ops::Range;

use crate::classes::{Class, class_of};

/// The pattern of a splitter.
#[derive(Debug, Clone, Copy)]
pub(super) enum Style {
    /// GPT-2's.
    Gpt2,
    /// The family that Llama 3 and Qwen 2 belong to.
    Words {
        /// The longest run of digits that is one word.
        digits: usize,
        /// Whether combining marks count as letters.
        marks: bool,
        /// Which contractions are words.
        contractions: Contractions,
    },
    /// Runs of line feeds, and the text between them: `[^\n]+|[\n]+`.
    Lines,
    /// Runs of numbers split into threes from the right, and the text between them:
    /// `\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))`.
    Threes {
        /// Whether a run before a letter is not split, as in the pattern `(?=(?:\d{3})*\b)`.
        at_word_ends: bool,
    },
}

/// How English contractions such as `'ll` are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contractions {
    None,
    AnyCase,
}

impl Style {
    /// Splits `text` and adds `offset` to all positions.
    pub(super) fn pieces(self, text: &str, offset: usize, emit: &mut impl FnMut(Range<usize>)) {
        if let Style::Threes { at_word_ends } = self {
            return threes(text, offset, at_word_ends, emit);
        }
        let mut rest = text;
        let mut at = offset;
        while !rest.is_empty() {
            let length = match self {
                Style::Gpt2 => gpt2(rest),
                Style::Words { digits, marks, contractions } => words(rest, digits, marks, contractions),
                Style::Lines => {
                    let line_feed = rest.starts_with('\n');
                    run(rest, |letter| (letter == '\n') == line_feed)
                }
                // Returned above: the pieces depend on the end of a run.
                Style::Threes { .. } => rest.len(),
            };
            // Every branch returns at least one character. The whole rest is the fallback for 0.
            let (length, after) = match rest.split_at_checked(length) {
                Some((word, after)) if !word.is_empty() => (length, after),
                _ => (rest.len(), ""),
            };
            emit(at..at + length);
            at += length;
            rest = after;
        }
    }
}

/// Returns the length in bytes of the run at the start of `text` whose characters satisfy `belongs`.
fn run(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !belongs(letter)).unwrap_or(text.len())
}

/// Returns `text` from byte `at` on.
fn from(text: &str, at: usize) -> &str {
    text.get(at..).unwrap_or_default()
}

fn is_line_break(letter: char) -> bool {
    matches!(letter, '\r' | '\n')
}

/// Returns the length of a contraction at the start, or 0.
fn contraction(text: &str, any_case: bool) -> usize {
    let fold = |byte: u8| if any_case { byte.to_ascii_lowercase() } else { byte };
    match *text.as_bytes() {
        [b'\'', first, ..] if matches!(fold(first), b's' | b't' | b'm' | b'd') => 2,
        [b'\'', first, second, ..] if matches!(&[fold(first), fold(second)], b"re" | b"ve" | b"ll") => 3,
        _ => 0,
    }
}

/// Returns the length of white space that is a separate word: all but the last character, which belongs to the
/// following text.
fn blanks(text: &str, length: usize) -> usize {
    let Some(space) = text.get(..length) else { return text.len() };
    let last = space.chars().next_back().map_or(0, char::len_utf8);
    if length == text.len() || length == last { length } else { length - last }
}

/// Splits runs of numbers into threes from the right. The text between two runs is one piece.
fn threes(text: &str, offset: usize, at_word_ends: bool, emit: &mut impl FnMut(Range<usize>)) {
    let is_number = |letter| class_of(letter) == Class::Number;
    let (mut between, mut at) = (0, 0);
    while at < text.len() {
        let rest = from(text, at);
        let length = run(rest, is_number);
        let after = from(rest, length);
        let in_word = |letter| letter == '_' || matches!(class_of(letter), Class::Letter | Class::Mark);
        let letter_after = after.chars().next().is_some_and(in_word);
        if length == 0 || at_word_ends && letter_after {
            at += length + run(after, |letter| !is_number(letter));
            continue;
        }
        if at > between {
            emit(offset + between..offset + at);
        }
        let mut numbers = rest.get(..length).unwrap_or_default();
        let mut left = numbers.chars().count();
        while left > 0 {
            let taken = if left % 3 == 0 { 3 } else { left % 3 };
            let bytes = numbers.chars().take(taken).map(char::len_utf8).sum();
            emit(offset + at..offset + at + bytes);
            (at, left) = (at + bytes, left - taken);
            numbers = from(numbers, bytes);
        }
        between = at;
    }
    if between < text.len() {
        emit(offset + between..offset + text.len());
    }
}

/// Maps a character to the classes that the patterns use: letter, number, white space, other.
#[inline]
fn kind_of(letter: char, marks_are_letters: bool) -> Class {
    match class_of(letter) {
        Class::Mark if marks_are_letters => Class::Letter,
        class @ (Class::Letter | Class::Number | Class::Space) => class,
        _ => Class::Other,
    }
}

fn gpt2(rest: &str) -> usize {
    let contraction = contraction(rest, false);
    if contraction > 0 {
        return contraction;
    }
    let blank = usize::from(rest.starts_with(' '));
    let word = from(rest, blank);
    let kind = |letter| kind_of(letter, false);
    match word.chars().next().map(kind) {
        Some(first) if first != Class::Space => blank + run(word, |letter| kind(letter) == first),
        _ => blanks(rest, run(rest, |letter| class_of(letter) == Class::Space)),
    }
}

fn words(rest: &str, digits: usize, marks: bool, contractions: Contractions) -> usize {
    if contractions == Contractions::AnyCase {
        let contraction = contraction(rest, true);
        if contraction > 0 {
            return contraction;
        }
    }
    let kind = |letter| kind_of(letter, marks);
    let is = |wanted: Class| move |letter: char| kind(letter) == wanted;
    let mut letters = rest.chars();
    let Some(first) = letters.next() else { return 0 };
    let width = first.len_utf8();
    match kind(first) {
        Class::Letter => return run(rest, is(Class::Letter)),
        Class::Number => {
            return rest.chars().take(digits).take_while(|&letter| is(Class::Number)(letter)).map(char::len_utf8).sum();
        }
        _ => {}
    }
    let second = letters.next().map(kind);
    if second == Some(Class::Letter) && !is_line_break(first) {
        return width + run(from(rest, width), is(Class::Letter));
    }
    let blank = if first == ' ' && second == Some(Class::Other) { 1 } else { 0 };
    let symbols = blank + run(from(rest, blank), is(Class::Other));
    if symbols > blank {
        return symbols + run(from(rest, symbols), is_line_break);
    }
    let space = run(rest, is(Class::Space));
    // Up to and including the last line break of the run, if it has one.
    match rest.get(..space).and_then(|space| space.rfind(is_line_break)) {
        Some(last) => last + 1,
        None => blanks(rest, space),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fancy_regex::Regex;
    use proptest::prelude::*;

    /// Compares a splitter with its pattern.
    fn check(style: Style, pattern: &str, text: &str) {
        let regex = Regex::new(pattern).expect("the test's pattern is valid");
        let wanted: Vec<&str> = regex.find_iter(text).map(|found| found.expect("short input").as_str()).collect();
        let mut got = Vec::new();
        style.pieces(text, 0, &mut |range| got.push(&text[range]));
        assert_eq!(got, wanted, "{style:?} on {text:?}");
    }

    /// The same for patterns where the text between two matches is a piece too.
    fn check_cuts(style: Style, pattern: &str, text: &str) {
        let regex = Regex::new(pattern).expect("the test's pattern is valid");
        let (mut wanted, mut got, mut done) = (Vec::new(), Vec::new(), 0);
        for found in regex.find_iter(text).map(|found| found.expect("short input")) {
            wanted.extend((found.start() > done).then(|| &text[done..found.start()]));
            wanted.push(found.as_str());
            done = found.end();
        }
        wanted.extend((done < text.len()).then(|| &text[done..]));
        style.pieces(text, 0, &mut |range| got.push(&text[range]));
        assert_eq!(got, wanted, "{style:?} on {text:?}");
    }

    fn check_all(text: &str) {
        check(Style::Lines, r"[^\n]+|[\n]+", text);
        check_cuts(Style::Threes { at_word_ends: false }, r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", text);
        check_cuts(Style::Threes { at_word_ends: true }, r"\p{N}{1,3}(?=(?:\p{N}{3})*(?![\p{L}\p{M}\p{N}_]))", text);
        let contraction = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
        check(Style::Gpt2, r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", text);
        for digits in [1, 3] {
            let rest = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
            let plain = format!(r"[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,{digits}}}|{rest}");
            let any_case = Contractions::AnyCase;
            check(
                Style::Words { digits, marks: false, contractions: any_case },
                &format!("{contraction}|{plain}"),
                text,
            );
            check(Style::Words { digits, marks: false, contractions: Contractions::None }, &plain, text);
            let rest = r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
            let marked = format!(r"{contraction}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}{{1,{digits}}}|{rest}");
            check(Style::Words { digits, marks: true, contractions: any_case }, &marked, text);
        }
    }

    #[test]
    fn edge_cases_equal_patterns() {
        for text in [
            "",
            " ",
            "  a",
            "a  ",
            " \n a",
            "\n\nx",
            "I'LL we'll 'ſ",
            "a\u{a0}b",
            "1234567",
            "12 1234a 123 1_ 12345",
            "½ \r\n!?\n\n ",
            "e\u{301}t",
            " \u{301}",
        ] {
            check_all(text);
        }
    }

    proptest! {
        #[test]
        fn random_text_equals_patterns(text in any::<String>()) {
            check_all(&text);
        }

        #[test]
        fn random_text_of_special_characters_equals_patterns(text in "[a-cSsTtLlVvEeRrMmDd' \\t\\r\\n0-3.,!é\u{301}漢½\u{a0}\u{3000}]{0,40}") {
            check_all(&text);
        }
    }
}
