//! Terminal detection, terminal width, and word wrap.

use std::io::{self, IsTerminal, Write};

use crate::output;

/// Columns that are left free at the right edge, as in `ollama`.
const MARGIN: usize = 5;
/// Width of a terminal that does not report one.
const DEFAULT_WIDTH: usize = 80;

/// Whether standard output is a terminal.
pub(crate) fn is_stdout_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard input is a terminal.
pub(crate) fn is_stdin_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Reads the answer to a question that ends with `[y/N]` from standard input.
pub(crate) fn read_consent() -> io::Result<bool> {
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Columns of the terminal of standard output.
pub(crate) fn width() -> usize {
    width_of(&io::stdout())
}

/// Columns of the terminal of a stream.
#[cfg(unix)]
pub(crate) fn width_of(stream: &impl std::os::fd::AsFd) -> usize {
    match rustix::termios::tcgetwinsize(stream) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => DEFAULT_WIDTH,
    }
}

/// Columns of the terminal of a stream.
#[cfg(not(unix))]
pub(crate) fn width_of<S>(_: &S) -> usize {
    DEFAULT_WIDTH
}

/// Wraps streamed text between words. A word is printed when it is complete.
pub(crate) struct Wrap<W> {
    out: W,
    /// Columns to fill; `None` disables wrapping.
    columns: Option<usize>,
    /// Whether the output is a terminal. Control characters are escaped only for a terminal.
    is_terminal: bool,
    column: usize,
    /// Blanks before the next word, printed if the word stays on this line.
    blanks: String,
    word: String,
}

impl<W: Write> Wrap<W> {
    /// Creates a wrapper that writes to `out` and breaks lines [`MARGIN`] columns before `width`, but not before 10 columns.
    /// `None` disables wrapping. Control characters are escaped for a terminal.
    pub(crate) fn new(out: W, width: Option<usize>, is_terminal: bool) -> Self {
        let columns = width.map(|width| width.saturating_sub(MARGIN).max(10));
        Self { out, columns, is_terminal, column: 0, blanks: String::new(), word: String::new() }
    }

    /// Appends text.
    pub(crate) fn push(&mut self, text: &str) -> io::Result<()> {
        let text = &*if self.is_terminal { output::escape_controls(text) } else { text.into() };
        if self.columns.is_none() {
            self.out.write_all(text.as_bytes())?;
            return self.out.flush();
        }
        for letter in text.chars() {
            match letter {
                '\n' => {
                    self.word_ends()?;
                    self.blanks.clear();
                    self.column = 0;
                    self.out.write_all(b"\n")?;
                }
                ' ' | '\t' => {
                    self.word_ends()?;
                    self.blanks.push(letter);
                }
                // East Asian scripts break after any character.
                letter if columns_of(letter) == 2 => {
                    self.word_ends()?;
                    self.word.push(letter);
                    self.word_ends()?;
                }
                letter => self.word.push(letter),
            }
        }
        self.out.flush()
    }

    /// Writes a terminal command between the words, without escaping it.
    pub(crate) fn command(&mut self, sequence: &str) -> io::Result<()> {
        self.word_ends()?;
        self.out.write_all(sequence.as_bytes())
    }

    /// Prints the buffered text.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.word_ends()?;
        self.out.write_all(std::mem::take(&mut self.blanks).as_bytes())?;
        self.out.flush()
    }

    fn word_ends(&mut self) -> io::Result<()> {
        if self.word.is_empty() {
            return Ok(());
        }
        let (blanks, word) = (std::mem::take(&mut self.blanks), std::mem::take(&mut self.word));
        let needed: usize = word.chars().map(columns_of).sum();
        let fits = self.columns.is_none_or(|columns| self.column + blanks.len() + needed <= columns);
        if fits || self.column == 0 {
            self.out.write_all(blanks.as_bytes())?;
            self.column += blanks.len();
        } else {
            self.out.write_all(b"\n")?;
            self.column = 0;
        }
        self.out.write_all(word.as_bytes())?;
        self.column += needed;
        Ok(())
    }
}

/// Columns of a character: two for East Asian scripts and emoji, else one.
fn columns_of(letter: char) -> usize {
    match letter {
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe4f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], width: Option<usize>, expected: &str) {
        let mut out = Vec::new();
        let mut wrap = Wrap::new(&mut out, width, width.is_some());
        for piece in pieces {
            wrap.push(piece).unwrap();
        }
        wrap.finish().unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{pieces:?} at {width:?}");
    }

    #[test]
    fn text_wraps_between_words() {
        check(&["one two th", "ree four"], Some(15), "one two\nthree four");
        check(&["one two th", "ree four"], None, "one two three four");
        check(&["a line\n\n  indented"], Some(80), "a line\n\n  indented");
        check(&["abcdefghijklmnop q"], Some(15), "abcdefghijklmnop\nq");
        check(&["漢字漢字漢字漢字"], Some(15), "漢字漢字漢\n字漢字");
        check(&["ends with a blank "], None, "ends with a blank ");
        check(&["\x1b[2J", "gone"], Some(80), "␛[2Jgone");
        check(&["\x1b[2J", "gone"], None, "\x1b[2Jgone");
    }
}
