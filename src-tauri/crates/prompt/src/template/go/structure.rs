//! Checks the block structure of a template before it is parsed.
//!
//! The parser recurses for each `else if` without a limit, and treats a missing or surplus `{{end}}` as the end of the
//! template. So blocks are counted here, by the first words of each action.

use super::super::Error;

/// Maximum depth of nested blocks. Each `else if` and `else with` adds one, as in the parser's tree.
const MAX_DEPTH: usize = 100;

/// An open block.
struct OpenBlock<'a> {
    word: &'a str,
    line: usize,
    /// Levels of the block: one, and one for each `else if`.
    levels: usize,
    /// Whether a plain `else` was read, after which no other may follow.
    has_else: bool,
}

/// Checks that all blocks are closed and not nested too deeply.
///
/// # Errors
/// [`Error::Syntax`] with the line, or [`Error::TooLarge`].
pub(super) fn check(source: &str) -> Result<(), Error> {
    let invalid = |line: usize, what: &str| Err(Error::Syntax { reason: format!("line {line}: {what}") });
    let mut open: Vec<OpenBlock<'_>> = Vec::new();
    let (mut line, mut rest) = (1, source);
    while let Some((text, after)) = rest.split_once("{{") {
        line += line_count(text);
        let Some((action, after)) = action(after) else {
            return invalid(line, "an action is not ended by }}");
        };
        let mut words = action.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let (word, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match word {
            "define" if !open.is_empty() => return invalid(line, "{{define}} inside a block"),
            "if" | "range" | "with" | "define" | "block" => {
                open.push(OpenBlock { word, line, levels: 1, has_else: false })
            }
            "else" => match open.last_mut() {
                Some(block) if matches!(block.word, "if" | "range" | "with") && !block.has_else => match second {
                    "if" | "with" if second == block.word => block.levels += 1,
                    "if" | "with" => return invalid(line, "{{else if}} or {{else with}} in a block of another kind"),
                    _ => block.has_else = true,
                },
                _ => return invalid(line, "{{else}} without a block that it belongs to"),
            },
            "end" if open.pop().is_none() => return invalid(line, "{{end}} without a block that it ends"),
            _ => {}
        }
        if open.iter().map(|block| block.levels).sum::<usize>() > MAX_DEPTH {
            return Err(Error::TooLarge { what: "depth" });
        }
        line += line_count(action);
        rest = after;
    }
    match open.pop() {
        Some(block) => invalid(block.line, &format!("{{{{{}}}}} is not ended by {{{{end}}}}", block.word)),
        None => Ok(()),
    }
}

fn line_count(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Returns the content of an action without trim markers, and the text after it. Returns `None` if the action is not
/// closed.
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

    fn result(source: &str) -> String {
        check(source).map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn unbalanced_blocks_are_refused() {
        let fine = |source: &str| assert_eq!(result(source), "fine", "{source}");
        fine("a {{ .B }} {{- if .C -}} d {{- else if .E }}f{{ else }}g{{ end -}} h");
        fine("{{ define \"a }} {{ if\" }}{{ `}}{{end}}` }}{{ end }}{{ '}' }}{{/* {{ end }} */}}");
        fine("{{ range $i, $m := .Messages }}{{ with $m }}{{ else with $i }}{{ end }}{{ else }}{{ break }}{{ end }}");
        fine("{{ \"\\\"}}\" }}{{ endless }}{{ .end }}");
        let refused =
            |source: &str, wanted: &str| assert!(result(source).contains(wanted), "{source}: {}", result(source));
        refused("a\n{{ end }}", "line 2: {{end}} without");
        refused("{{ else }}", "line 1: {{else}} without");
        refused("{{ if .A }}{{ else }}{{ else }}{{ end }}", "{{else}} without");
        refused("{{ define \"a\" }}{{ else }}{{ end }}", "{{else}} without");
        refused("{{ if .A }}{{ define \"a\" }}{{ end }}{{ end }}", "line 1: {{define}} inside a block");
        refused("\n\n{{ range .A }}\n", "line 3: {{range}} is not ended");
        refused("{{ range .A }}{{ else if .B }}{{ end }}", "line 1: {{else if}}");
        refused("{{ if .A }}{{ else with .B }}{{ end }}", "line 1: {{else if}} or {{else with}}");
        refused("{{ \"a }}", "line 1: an action is not ended");
        refused("{{ /* a }}", "line 1: an action is not ended");
    }

    #[test]
    fn block_depth_is_limited() {
        let nested = |count: usize| "{{ if .A }}".repeat(count) + &"{{ end }}".repeat(count);
        assert_eq!(result(&nested(MAX_DEPTH)), "fine", "maximum depth");
        assert!(result(&nested(MAX_DEPTH + 1)).contains("depth"), "maximum depth plus 1");
        let chained = |count: usize| format!("{{{{ if .A }}}}{}{{{{ end }}}}", "{{ else if .B }}".repeat(count));
        assert_eq!(result(&chained(MAX_DEPTH - 1)), "fine", "maximum chain length");
        assert!(result(&chained(MAX_DEPTH)).contains("depth"), "maximum chain length plus 1");
    }
}
