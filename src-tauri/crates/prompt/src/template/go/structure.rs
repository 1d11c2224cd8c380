//! The blocks of a template, checked before it is parsed.
//!
//! The parser goes one call deeper for each `else if`, without a limit, and takes a block without an end, or an end without a
//! block, for the end of the template. So what opens and what ends is counted here, by reading no more than the first word of
//! each action.

use super::super::Error;

/// Blocks in blocks; each `else if` and `else with` is one more, as it is in the parser's tree.
const MAX_DEPTH: usize = 100;

/// A block that is open.
struct Open<'a> {
    word: &'a str,
    line: usize,
    /// Levels that it takes: one, and one for each `else if`.
    levels: usize,
    /// Whether its last `else` has come.
    last: bool,
}

/// Checks that all blocks are ended and that they are not nested too deeply.
///
/// # Errors
/// [`Error::Syntax`] with the line, or [`Error::TooLarge`].
pub(super) fn check(source: &str) -> Result<(), Error> {
    let invalid = |line: usize, what: &str| Err(Error::Syntax { reason: format!("line {line}: {what}") });
    let mut open: Vec<Open<'_>> = Vec::new();
    let (mut line, mut rest) = (1, source);
    while let Some((text, after)) = rest.split_once("{{") {
        line += lines(text);
        let Some((action, after)) = action(after) else {
            return invalid(line, "an action is not ended by }}");
        };
        let mut words = action.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let (word, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match word {
            "if" | "range" | "with" | "define" | "block" => open.push(Open { word, line, levels: 1, last: false }),
            "else" => match open.last_mut() {
                Some(block) if matches!(block.word, "if" | "range" | "with") && !block.last => match second {
                    "if" | "with" => block.levels += 1,
                    _ => block.last = true,
                },
                _ => return invalid(line, "{{else}} without a block that it belongs to"),
            },
            "end" if open.pop().is_none() => return invalid(line, "{{end}} without a block that it ends"),
            _ => {}
        }
        if open.iter().map(|block| block.levels).sum::<usize>() > MAX_DEPTH {
            return Err(Error::TooLarge { what: "depth" });
        }
        line += lines(action);
        rest = after;
    }
    match open.pop() {
        Some(block) => invalid(block.line, &format!("{{{{{}}}}} is not ended by {{{{end}}}}", block.word)),
        None => Ok(()),
    }
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// What stands in an action, without the signs that trim white space, and what follows its end; nothing without an end.
fn action(after: &str) -> Option<(&str, &str)> {
    let inner = after.strip_prefix('-').filter(|rest| rest.starts_with(char::is_whitespace)).unwrap_or(after);
    let inner = inner.trim_start();
    let comment = inner.strip_prefix("/*");
    let mut at = match comment {
        Some(text) => text.find("*/")? + 4,
        None => 0,
    };
    let mut quote = None;
    let mut escaped = false;
    for (offset, letter) in inner.get(at..)?.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some('"' | '\'') if letter == '\\' => escaped = true,
            Some(end) if letter == end => quote = None,
            Some(_) => {}
            None if matches!(letter, '"' | '`' | '\'') => quote = Some(letter),
            None if inner.get(at + offset..)?.starts_with("}}") => {
                at += offset;
                return Some((inner.get(..at)?, inner.get(at + 2..)?));
            }
            None => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(source: &str) -> String {
        check(source).map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn blocks_are_ended() {
        let fine = |source: &str| assert_eq!(said(source), "fine", "{source}");
        fine("a {{ .B }} {{- if .C -}} d {{- else if .E }}f{{ else }}g{{ end -}} h");
        fine("{{ define \"a }} {{ if\" }}{{ `}}{{end}}` }}{{ end }}{{ '}' }}{{/* {{ end }} */}}");
        fine("{{ range $i, $m := .Messages }}{{ with $m }}{{ else with $i }}{{ end }}{{ else }}{{ break }}{{ end }}");
        fine("{{ \"\\\"}}\" }}{{ endless }}{{ .end }}");
        let refused = |source: &str, wanted: &str| assert!(said(source).contains(wanted), "{source}: {}", said(source));
        refused("a\n{{ end }}", "line 2: {{end}} without");
        refused("{{ else }}", "line 1: {{else}} without");
        refused("{{ if .A }}{{ else }}{{ else }}{{ end }}", "{{else}} without");
        refused("{{ define \"a\" }}{{ else }}{{ end }}", "{{else}} without");
        refused("\n\n{{ range .A }}\n", "line 3: {{range}} is not ended");
        refused("{{ \"a }}", "line 1: an action is not ended");
        refused("{{ /* a }}", "line 1: an action is not ended");
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |count: usize| "{{ if .A }}".repeat(count) + &"{{ end }}".repeat(count);
        assert_eq!(said(&nested(MAX_DEPTH)), "fine", "as deep as may be");
        assert!(said(&nested(MAX_DEPTH + 1)).contains("depth"), "one deeper");
        let chained = |count: usize| format!("{{{{ if .A }}}}{}{{{{ end }}}}", "{{ else if .B }}".repeat(count));
        assert_eq!(said(&chained(MAX_DEPTH - 1)), "fine", "as long as may be");
        assert!(said(&chained(MAX_DEPTH)).contains("depth"), "one longer");
    }
}
