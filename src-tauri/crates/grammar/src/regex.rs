//! Errors of regular expressions. Those of the compiler have no position in the text that the client sent.

use regex_syntax::ast::Span;

use crate::error::excerpt;

/// Longest part of an expression in an error, in characters.
const MAX_SHOWN_CHARS: usize = 20;

/// Returns why a text is not a regular expression, with the position and the text there; `None` if it is one.
pub(crate) fn problem(regex: &str) -> Option<String> {
    match regex_syntax::Parser::new().parse(regex).err()? {
        regex_syntax::Error::Parse(error) => Some(describe(regex, error.kind(), error.span())),
        regex_syntax::Error::Translate(error) => Some(describe(regex, error.kind(), error.span())),
        _ => Some("not a regular expression".to_owned()),
    }
}

fn describe(regex: &str, kind: &impl std::fmt::Display, span: &Span) -> String {
    let (before, rest) = regex.split_at_checked(span.start.offset).unwrap_or((regex, ""));
    if rest.is_empty() {
        return format!("{kind} at the end");
    }
    let shown: String = rest.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    format!("{kind} at character {}: `{}`", before.chars().count() + 1, excerpt(&shown, MAX_SHOWN_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_has_the_reason_the_position_and_the_text_there() {
        let check = |regex: &str, expected: Option<&str>| assert_eq!(problem(regex).as_deref(), expected, "{regex:?}");
        check("(a|b)+", None);
        check("(a", Some("unclosed group at character 1: `(a`"));
        check("é\nb(c\nd", Some("unclosed group at character 4: `(c d`"));
        check("[b-a]", Some("invalid character class range, the start must be <= the end at character 2: `b-a]`"));
        check(
            "(?=a)",
            Some("look-around, including look-ahead and look-behind, is not supported at character 1: `(?=a)`"),
        );
        let long = format!("a({}", "b".repeat(10_000));
        check(&long, Some("unclosed group at character 2: `(bbbbbbbbbbbbbbbbbbb…`"));
        check("a\\", Some("incomplete escape sequence, reached end of pattern prematurely at character 2: `\\`"));
    }
}
