//! What is printed: answers to standard output, all else to standard error.
//!
//! Names, templates and answers come from files and models that nobody vouches for. On a terminal their control characters
//! would be commands to it, so they are shown there and not sent; a file or a pipe gets every byte as it is.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;

/// Prints text to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let text = if out.is_terminal() { shown(text) } else { text.into() };
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("could not write the output")
}

/// Prints a value as one line of JSON, for scripts.
pub(crate) fn json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(value).expect("our own types have string keys and finite numbers");
    line.push('\n');
    print(&line)
}

/// Prints a line to standard error. Nobody can be told when that fails.
pub(crate) fn note(line: &str) {
    let mut out = io::stderr().lock();
    let line = if out.is_terminal() { shown(line) } else { line.into() };
    let _ = writeln!(out, "{line}");
}

/// Text as a terminal may see it: control characters other than line breaks and tabs as pictures of themselves.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    pictured(text, |letter| letter.is_control() && !matches!(letter, '\n' | '\t'))
}

/// Text with pictures in place of those control characters that are chosen.
pub(crate) fn pictured(text: &str, chosen: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&chosen) {
        return text.into();
    }
    text.chars().map(|letter| if chosen(letter) { picture(letter) } else { letter }).collect()
}

/// Unicode has pictures for the control characters of ASCII.
fn picture(control: char) -> char {
    match control {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(control)).expect("32 pictures begin there"),
        '\x7f' => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_to_the_terminal_become_pictures() {
        let check = |text: &str, expected: &str| assert_eq!(shown(text), expected, "{text:?}");
        check("plain\n\ttext, 漢字", "plain\n\ttext, 漢字");
        check("\x1b]0;title\x07", "␛]0;title␇");
        check("over\rwritten\x08\x7f", "over␍written␈␡");
        check("\u{9b}31m\u{90}", "\u{fffd}31m\u{fffd}");
    }
}
