//! DOCX: the text of the body and the notes, divided at headings.
//!
//! Specification: ECMA-376 part 1, WordprocessingML. Deleted text of tracked changes, instructions of fields, and the fallbacks
//! of alternative contents are not part of the text.

use std::collections::HashMap;

use crate::package::Package;
use crate::parts::{Parts, Section};
use crate::xml::{Node, attribute};
use crate::{Error, Limits};

/// Elements with text that is not shown.
const HIDDEN: &[&str] = &["delText", "instrText", "Fallback", "del", "moveFrom"];
/// Outline level of body text.
const BODY_LEVEL: usize = 9;

pub(crate) fn read(bytes: &[u8], limits: &Limits, parts: &mut Parts<'_>) -> Result<(), Error> {
    let mut package = Package::open(bytes, limits)?;
    let levels = heading_levels(&mut package)?;
    let mut section = Section::new(parts);
    let mut body = Body::new(&levels);
    package.read("word/document.xml", |node| body.visit(node, &mut section))?;
    for (entry, title) in [("word/footnotes.xml", "Footnotes"), ("word/endnotes.xml", "Endnotes")] {
        let mut notes = String::new();
        let mut plain = Body::new(&levels);
        let mut collected = Vec::new();
        package.read(entry, |node| {
            plain.paragraphs(node, &mut |text, _| {
                collected.push(text.to_owned());
                Ok(())
            })
        })?;
        for text in collected.iter().filter(|text| !text.trim().is_empty()) {
            notes.push_str(text);
            notes.push('\n');
        }
        if !notes.is_empty() {
            section.begin(title, 1)?;
            section.push(&notes)?;
        }
    }
    section.end()
}

/// Returns the outline level of each style that is a heading.
fn heading_levels(package: &mut Package<'_>) -> Result<HashMap<String, usize>, Error> {
    let mut levels = HashMap::new();
    let mut style = String::new();
    package.read("word/styles.xml", |node| {
        let Node::Start(element) = node else { return Ok(()) };
        match element.local_name().as_ref() {
            "style" => style = attribute(element, "styleId").unwrap_or_default(),
            "name" => {
                let name = attribute(element, "val").unwrap_or_default().to_lowercase();
                if name == "title" {
                    levels.insert(style.clone(), 0);
                } else if let Some(level) = name.strip_prefix("heading ").and_then(|level| level.parse::<usize>().ok())
                {
                    levels.insert(style.clone(), level.saturating_sub(1));
                }
            }
            "outlineLvl" => {
                if let Some(level) = outline_level(attribute(element, "val")) {
                    levels.insert(style.clone(), level);
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(levels)
}

/// Returns the level of a heading, from 0; `None` for body text.
fn outline_level(value: Option<String>) -> Option<usize> {
    value?.parse().ok().filter(|level| *level < BODY_LEVEL)
}

/// State of the paragraphs of a body.
struct Body<'a> {
    levels: &'a HashMap<String, usize>,
    paragraph: String,
    level: Option<usize>,
    /// Elements with hidden text around the current node.
    hidden: usize,
    is_text: bool,
    /// Tables around the current node.
    tables: usize,
    /// Cells of the current row.
    row: Vec<String>,
}

impl<'a> Body<'a> {
    fn new(levels: &'a HashMap<String, usize>) -> Self {
        Self { levels, paragraph: String::new(), level: None, hidden: 0, is_text: false, tables: 0, row: Vec::new() }
    }

    fn visit(&mut self, node: Node<'_>, section: &mut Section<'_, '_>) -> Result<(), Error> {
        self.paragraphs(node, &mut |text, level| match level {
            Some(level) => section.begin(text, level + 1),
            None => {
                section.push(text)?;
                section.push("\n\n")
            }
        })
    }

    /// Calls `add` with each paragraph and row of a table, and the level of headings.
    fn paragraphs(
        &mut self,
        node: Node<'_>,
        add: &mut impl FnMut(&str, Option<usize>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match node {
            Node::Start(element) => match element.local_name().as_ref() {
                name if HIDDEN.contains(&name) => self.hidden += 1,
                "t" => self.is_text = true,
                "tab" if !self.paragraph.is_empty() => self.paragraph.push('\t'),
                "br" | "cr" => self.paragraph.push('\n'),
                "noBreakHyphen" => self.paragraph.push('-'),
                "pStyle" => {
                    self.level =
                        attribute(element, "val").and_then(|style| self.levels.get(&style).copied()).or(self.level);
                }
                "outlineLvl" => self.level = outline_level(attribute(element, "val")),
                "tbl" => self.tables += 1,
                _ => {}
            },
            Node::Text(text) if self.is_text && self.hidden == 0 => self.paragraph.push_str(text),
            Node::Text(_) => {}
            Node::End(name) => match name {
                name if HIDDEN.contains(&name) => self.hidden = self.hidden.saturating_sub(1),
                "t" => self.is_text = false,
                "p" => {
                    let level = self.level.take();
                    if self.tables > 0 {
                        self.paragraph.push(' ');
                    } else if !self.paragraph.trim().is_empty() {
                        add(&std::mem::take(&mut self.paragraph), level)?;
                    }
                }
                // A table inside of a cell is text of that cell.
                "tc" if self.tables == 1 => {
                    let cell = std::mem::take(&mut self.paragraph);
                    self.row.push(cell.split_whitespace().collect::<Vec<_>>().join(" "));
                }
                "tr" if self.tables == 1 => {
                    let row = std::mem::take(&mut self.row);
                    if row.iter().any(|cell| !cell.is_empty()) {
                        add(&row.join(" | "), None)?;
                    }
                }
                "tbl" => self.tables = self.tables.saturating_sub(1),
                _ => {}
            },
        }
        Ok(())
    }
}
