//! The prompt of `cairn run`: text of standard input, and typed text.

use std::io::Read;

use anyhow::Context;

use crate::terminal;

/// A prompt. Only the typed text may name images: piped text is data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// Text of standard input, if that is no terminal.
    pub(crate) piped: String,
    /// Text of the command line or of a terminal.
    pub(crate) typed: String,
}

impl Prompt {
    /// Reads standard input, unless it is a terminal.
    pub(crate) fn read(words: &[String]) -> anyhow::Result<Self> {
        let mut piped = String::new();
        if !terminal::is_stdin_terminal() {
            std::io::stdin().read_to_string(&mut piped).context("cannot read standard input as text")?;
        }
        Ok(Self { piped: piped.trim_end().to_owned(), typed: words.join(" ") })
    }

    /// Returns the text of a line at a terminal.
    pub(super) fn typed(text: String) -> Self {
        Self { piped: String::new(), typed: text }
    }

    /// Returns the piped text, followed by the typed text.
    pub(crate) fn text(&self) -> String {
        let parts = [self.piped.as_str(), &self.typed];
        parts.into_iter().filter(|part| !part.trim().is_empty()).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_text_precedes_typed_text() {
        let check = |piped: &str, typed: &str, expected: &str| {
            let prompt = Prompt { piped: piped.to_owned(), typed: typed.to_owned() };
            assert_eq!(prompt.text(), expected, "{prompt:?}");
        };
        check("file", "why?", "file why?");
        check("", "why?", "why?");
        check("file", " ", "file");
        check("", "", "");
    }
}
