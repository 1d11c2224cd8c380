//! Texts of servers, made safe to show.

/// Returns at most `max_bytes` bytes of a text, without a part of a character.
pub(crate) fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// Returns a text without control characters other than line breaks and tabs, and without those that change the direction of
/// text: with them a text looks different from what it is.
pub(crate) fn visible(text: &str) -> String {
    text.chars().filter(|&c| matches!(c, '\n' | '\t') || !is_invisible(c)).collect()
}

/// Returns a text as one line of at most `max_bytes` bytes, with a mark if it was cut.
pub(crate) fn one_line(text: &str, max_bytes: usize) -> String {
    // A prefix of the text is enough, and bounds the work.
    let start = cut(text, max_bytes.saturating_mul(4));
    let line: String =
        start.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|&c| !is_invisible(c)).collect();
    let line = line.trim();
    match cut(line, max_bytes) {
        whole if whole.len() == line.len() && start.len() == text.len() => whole.to_owned(),
        part => format!("{part}…"),
    }
}

/// Whether a character is a control character or one of Unicode's controls of direction.
fn is_invisible(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_keeps_whole_characters() {
        assert_eq!(cut("añb", 2), "a");
        assert_eq!(cut("añb", 3), "añ");
        assert_eq!(cut("añb", 9), "añb");
    }

    #[test]
    fn one_line_has_no_controls_and_a_mark_of_the_cut() {
        assert_eq!(one_line(" a\n\u{1b}[31mb\u{202e} ", 100), "a [31mb");
        assert_eq!(one_line("abcdef", 3), "abc…");
        assert_eq!(one_line(&"x".repeat(1000), 3), "xxx…");
    }

    #[test]
    fn visible_keeps_line_breaks() {
        assert_eq!(visible("a\n\tb\u{7}\u{2066}c"), "a\n\tbc");
    }
}
