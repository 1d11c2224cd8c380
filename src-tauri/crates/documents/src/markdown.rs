//! Markdown: the text as it is, divided at headings outside of code fences.
//!
//! Specification: <https://spec.commonmark.org/0.31.2/>.

use crate::Error;
use crate::parts::{Parts, Section};

pub(crate) fn read(text: String, parts: &mut Parts<'_>) -> Result<(), Error> {
    let mut section = Section::new(parts);
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let start = line.trim_start();
        match fence {
            Some(open) if start.starts_with(open) => fence = None,
            Some(_) => {}
            None if start.starts_with("```") => fence = Some("```"),
            None if start.starts_with("~~~") => fence = Some("~~~"),
            None => {
                if let Some((level, heading)) = heading(line) {
                    section.begin(heading, level)?;
                    continue;
                }
            }
        }
        section.push(line)?;
        section.push("\n")?;
    }
    section.end()
}

/// Returns level and text of a heading with `#`.
fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let text = line.get(level..)?;
    let is_heading = (1..=6).contains(&level) && text.starts_with([' ', '\t']);
    is_heading.then(|| (level, text.trim().trim_end_matches('#').trim_end()))
}
