//! Printing: results to standard output, all else to standard error.
//!
//! Names, templates and answers are untrusted. Their control characters could control a terminal, so a terminal gets
//! them escaped; a file or a pipe gets every byte unchanged.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;

/// Prints text to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let text = if out.is_terminal() { escape_controls(text) } else { text.into() };
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write the output")
}

/// Prints a value as one line of JSON, for scripts.
pub(crate) fn json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(value).expect("our own types have string keys and finite numbers");
    line.push('\n');
    print(&line)
}

/// Whether the program that reads standard output has ended or closed it, as `head` does. A write would fail.
#[cfg(unix)]
pub(crate) fn is_reader_gone() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let out = io::stdout();
    let mut state = [PollFd::new(&out, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut state, Some(&at_once)).is_ok() && state[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Whether the program that reads standard output has closed it. Only the next write shows that here.
#[cfg(not(unix))]
pub(crate) fn is_reader_gone() -> bool {
    false
}

/// Prints a line to standard error. A failure is ignored, because it cannot be reported.
pub(crate) fn note(line: &str) {
    let mut out = io::stderr().lock();
    let line = if out.is_terminal() { escape_controls(line) } else { line.into() };
    let _ = writeln!(out, "{line}");
}

/// Replaces control characters other than line breaks and tabs by their Unicode pictures, for a terminal.
pub(crate) fn escape_controls(text: &str) -> Cow<'_, str> {
    replace_controls(text, |letter| letter.is_control() && !matches!(letter, '\n' | '\t'))
}

/// Replaces the control characters that `is_replaced` selects by their Unicode pictures.
pub(crate) fn replace_controls(text: &str, is_replaced: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_replaced) {
        return text.into();
    }
    text.chars().map(|letter| if is_replaced(letter) { control_picture(letter) } else { letter }).collect()
}

/// Returns the Unicode picture of an ASCII control character. Other control characters have none.
fn control_picture(control: char) -> char {
    match control {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(control)).expect("U+2400 to U+241F are pictures"),
        '\x7f' => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_output_escapes_control_characters() {
        let check = |text: &str, expected: &str| assert_eq!(escape_controls(text), expected, "{text:?}");
        check("plain\n\ttext, 漢字", "plain\n\ttext, 漢字");
        check("\x1b]0;title\x07", "␛]0;title␇");
        check("over\rwritten\x08\x7f", "over␍written␈␡");
        check("\u{9b}31m\u{90}", "\u{fffd}31m\u{fffd}");
    }
}
