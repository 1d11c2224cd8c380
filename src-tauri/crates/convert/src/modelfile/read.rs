//! Parser of Modelfiles.

use std::borrow::Cow;

use super::{Command, Modelfile, ParseError, ParseErrorKind, Role};

/// Decodes a file's text, without its byte order mark.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (units, rest) = bytes.as_chunks::<2>();
        let units = units.iter().map(|&bytes| unit(bytes));
        let mut text: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        if !rest.is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
        Cow::Owned(text)
    };
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest),
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        _ => String::from_utf8_lossy(bytes),
    }
}

pub(super) fn modelfile(text: &str) -> Result<Modelfile, ParseError> {
    let mut rest = Rest { text, line: 1 };
    let mut commands = Vec::new();
    loop {
        rest.skip_while(is_blank);
        let line = rest.line;
        if rest.text.is_empty() {
            return Ok(Modelfile { commands });
        }
        if rest.text.starts_with('#') {
            rest.skip_while(|c| !is_newline(c));
            continue;
        }
        commands.push(command(&mut rest).map_err(|kind| ParseError { line, kind })?);
    }
}

/// Remaining input.
struct Rest<'a> {
    text: &'a str,
    /// Line number of its beginning.
    line: usize,
}

impl<'a> Rest<'a> {
    /// Consumes this many bytes. They must end at a character boundary.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.text.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.text = rest;
        taken
    }

    fn skip_while(&mut self, skip: impl Fn(char) -> bool) -> &'a str {
        let bytes = self.text.find(|c| !skip(c)).unwrap_or(self.text.len());
        self.take(bytes)
    }

    /// Consumes a word of characters that `belongs` accepts. Returns `None` if it is empty or no space follows.
    fn word(&mut self, belongs: impl Fn(char) -> bool) -> Option<&'a str> {
        let word = self.skip_while(belongs);
        (!word.is_empty() && self.text.starts_with(is_space)).then_some(word)
    }

    /// Consumes an argument: up to the end of the first line where its quotes are closed.
    fn argument(&mut self) -> Result<String, ParseErrorKind> {
        let mut from = 0;
        loop {
            let end = self.text.get(from..).and_then(|rest| rest.find(is_newline)).map(|at| from + at);
            let argument = self.text.get(..end.unwrap_or(self.text.len())).and_then(|text| unquoted(text.trim()));
            match (argument, end) {
                (Some(argument), _) => {
                    let argument = argument.to_owned();
                    self.take(end.unwrap_or(self.text.len()));
                    return Ok(argument);
                }
                // A line of only white space closes no quote.
                (None, Some(end)) => {
                    from = self.text.len() - self.text.get(end..).map_or(0, |rest| rest.trim_start().len())
                }
                (None, None) => return Err(ParseErrorKind::Unfinished),
            }
        }
    }
}

fn is_newline(c: char) -> bool {
    matches!(c, '\r' | '\n')
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn is_blank(c: char) -> bool {
    is_newline(c) || is_space(c)
}

/// Removes the quotes of a text. Returns `None` if they are not closed.
fn unquoted(text: &str) -> Option<&str> {
    let within = |quotes: &str| text.strip_prefix(quotes).and_then(|text| text.strip_suffix(quotes));
    match text {
        _ if text.starts_with("\"\"\"") => within("\"\"\""),
        _ if text.starts_with('"') => within("\""),
        bare => Some(bare),
    }
}

/// Returns whether an argument written as `quoted` is parsed as `text`.
pub(super) fn reads_as(quoted: &str, text: &str) -> bool {
    let line = format!("{quoted}\n");
    let mut rest = Rest { text: &line, line: 1 };
    rest.argument().is_ok_and(|argument| argument == text) && rest.text == "\n"
}

fn command(rest: &mut Rest<'_>) -> Result<Command, ParseErrorKind> {
    let start = rest.text;
    let word = rest.word(|c| c.is_ascii_alphabetic());
    let Some(word) = word else {
        // A known command without a space after it lacks its argument.
        let word: String = start.chars().take_while(|&c| !is_blank(c)).collect();
        let is_command = super::COMMANDS.iter().any(|command| command.eq_ignore_ascii_case(&word));
        return Err(if is_command { ParseErrorKind::Unfinished } else { ParseErrorKind::Command { word } });
    };
    Ok(match word.to_ascii_uppercase().as_str() {
        "FROM" => Command::From(rest.argument()?),
        "LICENSE" => Command::License(rest.argument()?),
        "TEMPLATE" => Command::Template(rest.argument()?),
        "SYSTEM" => Command::System(rest.argument()?),
        "ADAPTER" => Command::Adapter(rest.argument()?),
        "DRAFT" => Command::Draft(rest.argument()?),
        "RENDERER" => Command::Renderer(rest.argument()?),
        "PARSER" => Command::Parser(rest.argument()?),
        "REQUIRES" => Command::Requires(rest.argument()?),
        "PARAMETER" => {
            rest.skip_while(is_space);
            let name = rest.word(|c| c.is_alphanumeric() || c == '_').ok_or(ParseErrorKind::Unfinished)?.to_owned();
            Command::Parameter { name, value: rest.argument()? }
        }
        "MESSAGE" => {
            rest.skip_while(is_space);
            let word = rest.skip_while(|c| !is_blank(c));
            let role = Role::ALL.iter().find(|(_, name)| *name == word).map(|(role, _)| *role);
            let role = role.ok_or_else(|| ParseErrorKind::Role { word: word.to_owned() })?;
            if !rest.text.starts_with(is_space) {
                return Err(ParseErrorKind::Unfinished);
            }
            Command::Message { role, content: rest.argument()? }
        }
        _ => return Err(ParseErrorKind::Command { word: word.to_owned() }),
    })
}
