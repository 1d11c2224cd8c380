//! The collected parts of a document, with their limits.

use cairn_wire::app::documents::{DocumentPart, PartPlace};

use crate::{Error, Limits};

/// Most empty lines in a row.
const MAX_BLANK_LINES: usize = 1;

/// Parts of a document, up to the limits.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    limits: &'a Limits,
    parts: Vec<DocumentPart>,
    chars: usize,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(limits: &'a Limits) -> Self {
        Self { limits, parts: Vec::new(), chars: 0 }
    }

    /// Adds a part, unless its text is blank.
    pub(crate) fn add(&mut self, place: PartPlace, text: impl AsRef<str>) -> Result<(), Error> {
        self.check_chars(text.as_ref().len() / 4)?;
        let text = clean(text.as_ref());
        if text.is_empty() {
            return Ok(());
        }
        if self.parts.len() >= self.limits.parts {
            return Err(Error::too_many("parts", self.limits.parts));
        }
        let chars = text.chars().count();
        self.check_chars(chars)?;
        self.chars += chars;
        self.parts.push(DocumentPart { place, text });
        Ok(())
    }

    /// Fails if so many more characters exceed the limit. A reader calls it while a part grows.
    pub(crate) fn check_chars(&self, more: usize) -> Result<(), Error> {
        match self.chars.saturating_add(more) > self.limits.chars {
            true => Err(Error::too_many("characters", self.limits.chars)),
            false => Ok(()),
        }
    }

    pub(crate) fn finish(self) -> Vec<DocumentPart> {
        self.parts
    }
}

/// A part in progress: the text since the last heading.
pub(crate) struct Section<'a, 'b> {
    parts: &'a mut Parts<'b>,
    heading: Option<String>,
    text: String,
}

impl<'a, 'b> Section<'a, 'b> {
    pub(crate) fn new(parts: &'a mut Parts<'b>) -> Self {
        Self { parts, heading: None, text: String::new() }
    }

    /// Ends the section and begins one with this heading.
    pub(crate) fn begin(&mut self, heading: &str, level: usize) -> Result<(), Error> {
        let heading = heading.split_whitespace().collect::<Vec<_>>().join(" ");
        if heading.is_empty() {
            return Ok(());
        }
        self.end()?;
        self.text = format!("{} {heading}\n\n", "#".repeat(level.clamp(1, 6)));
        self.heading = Some(heading);
        Ok(())
    }

    /// Adds text to the section.
    pub(crate) fn push(&mut self, text: &str) -> Result<(), Error> {
        self.text.push_str(text);
        self.parts.check_chars(self.text.len() / 4)
    }

    /// Stores the section.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        let place = match self.heading.take() {
            Some(text) => PartPlace::Heading { text },
            None => PartPlace::Whole,
        };
        self.parts.add(place, std::mem::take(&mut self.text))
    }
}

/// Returns a text without control characters, spaces at the ends of lines, and repeated empty lines. Ligatures become letters,
/// so that a search finds their words.
pub(crate) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut blank_lines = 0;
    let text = text.replace("\r\n", "\n");
    for line in text.split(['\n', '\r', '\u{2028}', '\u{2029}', '\u{b}', '\u{c}']) {
        let line = line.trim_end();
        if line.is_empty() {
            blank_lines += 1;
            continue;
        }
        if !cleaned.is_empty() {
            cleaned.extend(std::iter::repeat_n('\n', 1 + blank_lines.min(MAX_BLANK_LINES)));
        }
        blank_lines = 0;
        for c in line.chars() {
            match c {
                '\t' => cleaned.push(c),
                '\u{a0}' => cleaned.push(' '),
                '\u{fb00}' => cleaned.push_str("ff"),
                '\u{fb01}' => cleaned.push_str("fi"),
                '\u{fb02}' => cleaned.push_str("fl"),
                '\u{fb03}' => cleaned.push_str("ffi"),
                '\u{fb04}' => cleaned.push_str("ffl"),
                // Soft hyphens, zero-width spaces, byte order marks, and marks that change the direction of text.
                '\u{ad}' | '\u{200b}' | '\u{feff}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
                c if c.is_control() => {}
                c => cleaned.push(c),
            }
        }
    }
    // A line may have only characters that were removed.
    cleaned.trim_matches('\n').to_owned()
}
