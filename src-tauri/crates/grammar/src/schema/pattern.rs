//! Regular expressions of JSON Schema, which are those of ECMA-262, in the syntax of the crate `regex`.
//!
//! Most of the two is equal. This translates or refuses what both accept with different meanings; what only one accepts is refused
//! by the parser. `\d` and `\w` are translated later.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::shape::Texts;
use crate::limits::MAX_REGEX_BYTES;
use crate::regex;

/// Line ends, which `.` does not match.
const NOT_A_LINE_END: &str = r"[^\n\r\x{2028}\x{2029}]";
/// White space, as the content of a class.
const SPACE: &str = r"\t\n\x{B}\x{C}\r\x{FEFF}\p{Zs}\x{2028}\x{2029}";

/// Translates a pattern.
///
/// # Errors
/// With the reason, if it is too long, or means something else in the other syntax.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    if pattern.len() > MAX_REGEX_BYTES {
        return Err(format!("{} bytes, at most {MAX_REGEX_BYTES} are", pattern.len()));
    }
    let mut result = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    let mut is_class = false;
    while let Some(char) = rest.next() {
        match char {
            '\\' => match rest.next() {
                Some('s') if is_class => result.push_str(SPACE),
                Some('s') => result.push_str(&format!("[{SPACE}]")),
                Some('S') => result.push_str(&format!("[^{SPACE}]")),
                // An escape of the other syntax that is a plain letter, or not allowed, here.
                Some(escaped @ ('A' | 'z' | 'a' | 'U' | '<' | '>')) => return Err(format!("the escape `\\{escaped}`")),
                Some(escaped) => result.extend(['\\', escaped]),
                None => return Err("a backslash at the end".to_owned()),
            },
            '[' if is_class => return Err("`[` in a class".to_owned()),
            '&' | '~' | '-' if is_class && rest.peek() == Some(&char) => {
                return Err(format!("`{char}{char}` in a class"));
            }
            '[' => {
                is_class = true;
                result.push(char);
                if rest.peek() == Some(&'^') {
                    result.extend(rest.next());
                }
                if rest.peek() == Some(&']') {
                    return Err("an empty class".to_owned());
                }
            }
            ']' if is_class => {
                is_class = false;
                result.push(char);
            }
            '.' if !is_class => result.push_str(NOT_A_LINE_END),
            '{' if !is_class && rest.peek() == Some(&',') => return Err("`{,` ".to_owned()),
            '(' if !is_class && rest.peek() == Some(&'?') => {
                rest.next();
                result.push_str("(?");
                match rest.next() {
                    Some(':') => result.push(':'),
                    // Names do not matter, and the other parser gives a meaning to some.
                    Some('<') if rest.peek().is_some_and(|next| !matches!(next, '=' | '!')) => {
                        if !rest.by_ref().any(|char| char == '>') {
                            return Err("a group name without an end".to_owned());
                        }
                        result.push(':');
                    }
                    _ => return Err("a group that looks ahead or behind, or has flags".to_owned()),
                }
            }
            _ => result.push(char),
        }
    }
    Ok(result)
}

/// Returns why a translated pattern is not a regular expression, with the position in the pattern of the schema if it is invalid in
/// both syntaxes.
pub(super) fn problem(pattern: &str, translated: &str) -> Option<String> {
    let problem = regex::problem(translated)?;
    Some(regex::problem(pattern).unwrap_or(problem))
}

/// A pattern for all texts but these.
///
/// # Errors
/// With the reason, if it is too long.
pub(super) fn other_than(texts: &[&str]) -> Result<String, String> {
    let mut pattern = "^(?:".to_owned();
    let words: Vec<Vec<char>> = texts.iter().map(|text| text.chars().collect()).collect();
    push_other(&mut pattern, &words.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    pattern.push_str(")$");
    Ok(pattern)
}

/// Appends alternatives for all texts but these.
fn push_other(pattern: &mut String, words: &[&[char]]) -> Result<(), String> {
    if pattern.len() > MAX_REGEX_BYTES {
        return Err(format!("more than {MAX_REGEX_BYTES} bytes of a pattern"));
    }
    let mut groups: BTreeMap<char, Vec<&[char]>> = BTreeMap::new();
    for word in words {
        if let Some((first, rest)) = word.split_first() {
            groups.entry(*first).or_default().push(rest);
        }
    }
    // The text ends here, unless one of the words does.
    if words.iter().all(|word| !word.is_empty()) {
        pattern.push('|');
    }
    match groups.is_empty() {
        true => pattern.push_str("(?s:.+)"),
        false => {
            pattern.push_str("[^");
            groups.keys().for_each(|char| push_char(pattern, *char));
            pattern.push_str("](?s:.*)");
        }
    }
    for (first, rests) in groups {
        pattern.push('|');
        push_char(pattern, first);
        pattern.push_str("(?:");
        push_other(pattern, &rests)?;
        pattern.push(')');
    }
    Ok(())
}

/// Appends a character, also within a class.
fn push_char(pattern: &mut String, char: char) {
    // Writing to a string cannot fail.
    let _ = write!(pattern, "\\x{{{:X}}}", u32::from(char));
}

/// A pattern for the same texts; none if that takes several.
pub(super) fn of_texts(texts: &Texts) -> Option<String> {
    let Texts { constants, patterns, formats, min_chars, max_chars } = texts;
    let has_length = *min_chars > 0 || max_chars.is_some();
    match (constants, patterns.as_slice()) {
        _ if !formats.is_empty() => None,
        (Some(constants), []) => {
            let mut pattern = "(?:^(?:".to_owned();
            for (index, text) in constants.iter().enumerate() {
                pattern.push_str(if index == 0 { "" } else { "|" });
                text.chars().for_each(|char| push_char(&mut pattern, char));
            }
            Some(pattern + ")$)")
        }
        (None, [pattern]) if !has_length => Some(format!("(?:{pattern})")),
        (None, []) => {
            let most = max_chars.map_or_else(String::new, |max| max.to_string());
            Some(format!("(?:^(?s:.{{{min_chars},{most}}})$)"))
        }
        _ => None,
    }
}
