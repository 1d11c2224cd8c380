//! Scanner for Rust source: separates production code from comments, literals and tests, and splits it into tokens.
//!
//! `syn` without spans has no line numbers, and it refuses files that do not parse. This scanner accepts any text.

/// Rust source as bytes of the same length, in which comments and test items are blank and literals are quotes.
pub(crate) struct Production(Vec<u8>);

/// An identifier, `::`, or one byte of punctuation.
pub(crate) type Token<'a> = &'a str;

impl Production {
    /// Masks all that is not production code.
    pub(crate) fn of(text: &str) -> Self {
        let mut masked = mask(text.as_bytes());
        blank_tests(&mut masked);
        Self(masked)
    }

    /// Lines that are neither blank nor only a comment nor part of a test.
    pub(crate) fn lines(&self) -> usize {
        self.0.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count()
    }

    /// Tokens in order. Literals and bytes outside ASCII are left out.
    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        tokens(&self.0).into_iter().map(|(_, token)| token).collect()
    }
}

/// The name of each test function, with the number of its line.
pub(crate) fn test_functions(text: &str) -> Vec<(usize, String)> {
    let masked = mask(text.as_bytes());
    let tokens = tokens(&masked);
    let mut found = Vec::new();
    let mut is_test = false;
    for (at, (start, token)) in tokens.iter().enumerate() {
        let next = |by: usize| tokens.get(at + by).map_or("", |(_, token)| *token);
        match *token {
            "#" if next(1) == "[" => {
                let attribute: String =
                    tokens[at + 2..].iter().map(|(_, token)| *token).take_while(|token| *token != "]").collect();
                is_test |= attribute == "test" || attribute.starts_with("tokio::test");
            }
            "fn" if std::mem::take(&mut is_test) => {
                let line = 1 + masked[..*start].iter().filter(|byte| **byte == b'\n').count();
                found.push((line, next(1).to_owned()));
            }
            _ => {}
        }
    }
    found
}

/// Replaces comments by blanks and literals by quotes. Line ends stay.
fn mask(text: &[u8]) -> Vec<u8> {
    let mut masked = text.to_vec();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let starts_word = at == 0 || !is_word(text[at - 1]);
        let (length, by) = if rest.starts_with(b"//") {
            (rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()), b' ')
        } else if rest.starts_with(b"/*") {
            (block_comment(rest), b' ')
        } else if let Some(length) = starts_word.then(|| raw_string(rest)).flatten() {
            (length, b'"')
        } else if rest[0] == b'"' {
            (quoted(rest, b'"'), b'"')
        } else if rest[0] == b'\'' && is_char(rest) {
            (quoted(rest, b'\''), b'"')
        } else {
            at += 1;
            continue;
        };
        for byte in &mut masked[at..at + length] {
            if *byte != b'\n' && !(by == b'"' && byte.is_ascii_whitespace()) {
                *byte = by;
            }
        }
        at += length;
    }
    masked
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// Length of a block comment; comments nest.
fn block_comment(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of a raw string that begins here, such as `br#"..."#`.
fn raw_string(text: &[u8]) -> Option<usize> {
    let prefix = text.iter().take(2).take_while(|byte| b"bcr".contains(byte)).count();
    if prefix == 0 || text[prefix - 1] != b'r' {
        return None;
    }
    let hashes = text[prefix..].iter().take_while(|byte| **byte == b'#').count();
    let start = prefix + hashes + 1;
    if text.get(start - 1) != Some(&b'"') {
        return None;
    }
    let end = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let inner = text[start..].windows(end.len()).position(|window| window == end);
    Some(inner.map_or(text.len(), |inner| start + inner + end.len()))
}

/// Length of a literal between quotes with escapes.
fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != quote {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// Whether a quote begins a character and not a lifetime.
fn is_char(text: &[u8]) -> bool {
    match text {
        [_, b'\\', ..] => true,
        [_, first, ..] => {
            let length = match first {
                0..=0x7f => 1,
                0x80..=0xdf => 2,
                0xe0..=0xef => 3,
                _ => 4,
            };
            text.get(1 + length) == Some(&b'\'')
        }
        _ => false,
    }
}

fn tokens(masked: &[u8]) -> Vec<(usize, Token<'_>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < masked.len() {
        let length = match masked[at] {
            byte if is_word(byte) => masked[at..].iter().take_while(|byte| is_word(**byte)).count(),
            b':' if masked.get(at + 1) == Some(&b':') => 2,
            byte if byte.is_ascii_punctuation() && byte != b'"' => 1,
            _ => {
                at += 1;
                continue;
            }
        };
        found.push((at, std::str::from_utf8(&masked[at..at + length]).expect("a token is ASCII")));
        at += length;
    }
    found
}

/// Blanks each item under `#[cfg(test)]`, `#[cfg(all(test, ...))]` or `#[test]`.
fn blank_tests(masked: &mut [u8]) {
    let mut blanks = Vec::new();
    let tokens = tokens(masked);
    let mut at = 0;
    while at < tokens.len() {
        match test_item(&tokens[at..]) {
            Some(length) => {
                let end = tokens.get(at + length).map_or(masked.len(), |(start, _)| *start);
                blanks.push(tokens[at].0..end);
                at += length;
            }
            None => at += 1,
        }
    }
    for blank in blanks {
        masked[blank].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
}

/// The number of tokens of a test item with its attributes, if one begins here.
fn test_item(tokens: &[(usize, Token<'_>)]) -> Option<usize> {
    let word = |at: usize| tokens.get(at).map_or("", |(_, token)| *token);
    let mut at = 0;
    let mut is_test = false;
    while word(at) == "#" && word(at + 1) == "[" {
        let start = at + 2;
        let mut depth = 1;
        at = start;
        while depth > 0 && at < tokens.len() {
            depth += i32::from(word(at) == "[") - i32::from(word(at) == "]");
            at += 1;
        }
        let attribute: String =
            tokens[start..at.saturating_sub(1).max(start)].iter().map(|(_, token)| *token).collect();
        is_test |= matches!(&*attribute, "cfg(test)" | "test") || attribute.starts_with("cfg(all(test,");
    }
    is_test.then(|| at + item_length(&tokens[at..]))
}

/// The number of tokens up to the end of an item, statement, field or variant.
fn item_length(tokens: &[(usize, Token<'_>)]) -> usize {
    let is_item = |(_, token): &(usize, Token<'_>)| {
        matches!(*token, "fn" | "mod" | "struct" | "enum" | "trait" | "impl" | "union" | "macro_rules")
    };
    // A body in braces ends these; elsewhere a value in braces may be followed by more.
    let has_body = tokens.iter().take_while(|(_, token)| !matches!(*token, "{" | ";" | "=" | ",")).any(is_item);
    let mut depth = 0_i32;
    for (at, (_, token)) in tokens.iter().enumerate() {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            ";" if depth == 0 => return at + 1,
            "," if depth == 0 && !has_body => return at + 1,
            _ => {}
        }
        if depth < 0 {
            return at;
        }
        let is_block = tokens.first().is_some_and(|(_, token)| *token == "{");
        if depth == 0 && *token == "}" && (has_body || is_block) {
            return at + 1;
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, expected: usize) {
        assert_eq!(Production::of(text).lines(), expected, "{text}");
    }

    #[test]
    fn comments_and_blank_lines_are_not_counted() {
        lines("//! Module.\n\n/// Doc.\nfn f() {} // why\n/* a /* nested */\n b */ fn g() {}\n", 2);
        lines("let url = \"http://x\";\nlet raw = r#\"// \" no comment\n second line\"#;\n", 3);
        lines("let c = '\"'; // a quote\nfn f<'a>(x: &'a str) {}\n// '\n", 2);
    }

    #[test]
    fn test_items_are_not_counted() {
        lines("fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\nfn h() {}\n", 2);
        lines("#[cfg(test)]\nmod tests;\nfn h() {}\n", 1);
        lines("#[cfg(test)]\nuse a::{b, c};\nfn h() {}\n", 1);
        lines("struct S {\n    #[cfg(test)]\n    a: Vec<u8>,\n    b: u8,\n}\n", 3);
        lines("#[cfg(test)]\nfn f<A, B>(x: [u8; 3])\nwhere A: B {\n}\nfn h() {}\n", 1);
        lines("#[cfg(any(unix, test))]\nfn h() {}\n", 2);
        lines("#[cfg(all(test, unix))]\n#[expect(x)]\nfn h() {}\n", 0);
        lines("fn f() {\n    #[cfg(test)]\n    {\n        a();\n    }\n    b();\n}\n", 3);
    }

    #[test]
    fn tokens_leave_out_comments_and_literals() {
        let source = Production::of("use a::b; // c\nlet d = \"e\" + 'f';");
        assert_eq!(source.tokens(), ["use", "a", "::", "b", ";", "let", "d", "=", "+", ";"], "only code has tokens");
    }

    #[test]
    fn test_functions_are_found_with_their_lines() {
        let found =
            test_functions("#[test]\nfn a_b_c() {}\nfn d() {}\n#[tokio::test(start_paused = true)]\nasync fn e() {}\n");
        assert_eq!(found, [(2, "a_b_c".to_owned()), (5, "e".to_owned())], "tests have an attribute");
    }
}
