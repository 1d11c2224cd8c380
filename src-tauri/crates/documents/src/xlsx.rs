//! XLSX: the cells of each sheet, a row a line, with tabs between cells.
//!
//! Specification: ECMA-376 part 1, SpreadsheetML. The stored value of a formula is its text; formulas are not computed.

mod dates;

use crate::package::Package;
use crate::parts::Parts;
use crate::xml::{Node, attribute, full_attribute};
use crate::{Error, Limits, PartPlace};
use dates::DateStyles;

const MAIN: &str = "xl/workbook.xml";
/// Empty cells in a row that become tabs. Longer gaps become one tab.
const MAX_GAP: usize = 16;

/// Reads all sheets and returns their number.
pub(crate) fn read(bytes: &[u8], limits: &Limits, parts: &mut Parts<'_>) -> Result<u32, Error> {
    let mut package = Package::open(bytes, limits)?;
    let targets = package.relationships(MAIN)?;
    let mut sheets = Vec::new();
    let mut starts_1904 = false;
    package.read(MAIN, |node| {
        let Node::Start(element) = node else { return Ok(()) };
        match element.local_name().as_ref() {
            "workbookPr" => starts_1904 = attribute(element, "date1904").is_some_and(|on| on == "1" || on == "true"),
            "sheet" => {
                let target = full_attribute(element, "r:id").and_then(|id| targets.get(&id));
                if let (Some(name), Some(target)) = (attribute(element, "name"), target) {
                    if sheets.len() >= limits.parts {
                        return Err(Error::too_many("sheets", limits.parts));
                    }
                    sheets.push((name, target.entry.clone()));
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    let shared = shared_strings(&mut package, parts)?;
    let dates = DateStyles::read(&mut package, starts_1904)?;
    for (name, entry) in &sheets {
        let mut sheet = Sheet { shared: &shared, dates: &dates, ..Sheet::default() };
        package.read(entry, |node| {
            sheet.visit(node);
            parts.check_chars(sheet.text.len() / 4)
        })?;
        parts.add(PartPlace::Sheet { name: name.clone() }, sheet.text)?;
    }
    Ok(sheets.len() as u32)
}

/// Reads the table of strings that cells refer to by number.
fn shared_strings(package: &mut Package<'_>, parts: &Parts<'_>) -> Result<Vec<String>, Error> {
    let (mut strings, mut bytes) = (Vec::new(), 0);
    let (mut text, mut is_text, mut is_phonetic) = (String::new(), false, false);
    package.read("xl/sharedStrings.xml", |node| {
        match node {
            Node::Start(element) => match element.local_name().as_ref() {
                "t" => is_text = true,
                "rPh" => is_phonetic = true,
                _ => {}
            },
            Node::Text(part) if is_text && !is_phonetic => text.push_str(part),
            Node::Text(_) => {}
            Node::End("t") => is_text = false,
            Node::End("rPh") => is_phonetic = false,
            Node::End("si") => {
                bytes += text.len();
                strings.push(std::mem::take(&mut text));
            }
            Node::End(_) => {}
        }
        parts.check_chars((bytes + text.len()) / 4)
    })?;
    Ok(strings)
}

/// State of a sheet.
#[derive(Default)]
struct Sheet<'a> {
    shared: &'a [String],
    dates: &'a DateStyles,
    text: String,
    /// Columns of the current row that have been written.
    columns: usize,
    /// Column of the current cell.
    column: usize,
    kind: String,
    style: usize,
    value: String,
    is_value: bool,
}

impl Default for &DateStyles {
    fn default() -> Self {
        static NONE: DateStyles = DateStyles::none();
        &NONE
    }
}

impl Sheet<'_> {
    fn visit(&mut self, node: Node<'_>) {
        match node {
            Node::Start(element) => match element.local_name().as_ref() {
                "row" => self.columns = 0,
                "c" => {
                    let place = attribute(element, "r").and_then(|place| column(&place));
                    self.column = place.unwrap_or(self.columns);
                    self.kind = attribute(element, "t").unwrap_or_default();
                    self.style = attribute(element, "s").and_then(|style| style.parse().ok()).unwrap_or_default();
                    self.value.clear();
                }
                "v" | "t" => self.is_value = true,
                _ => {}
            },
            Node::Text(text) if self.is_value => self.value.push_str(text),
            Node::Text(_) => {}
            Node::End("v" | "t") => self.is_value = false,
            Node::End("c") => self.write_cell(),
            Node::End("row") if self.columns > 0 => self.text.push('\n'),
            Node::End(_) => {}
        }
    }

    fn write_cell(&mut self) {
        let value = std::mem::take(&mut self.value);
        let shown = match self.kind.as_str() {
            "s" => value.trim().parse().ok().and_then(|at: usize| self.shared.get(at)).cloned().unwrap_or_default(),
            "b" => if value.trim() == "1" { "TRUE" } else { "FALSE" }.to_owned(),
            "" | "n" => self.dates.show(self.style, &value).unwrap_or(value),
            _ => value,
        };
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        if shown.is_empty() {
            return;
        }
        let gap = self.column.saturating_sub(self.columns);
        let tabs = if gap > MAX_GAP { 1 } else { gap };
        let first = usize::from(self.columns > 0);
        self.text.extend(std::iter::repeat_n('\t', tabs + first));
        self.text.push_str(&shown);
        self.columns = self.column.max(self.columns) + 1;
    }
}

/// Returns the column of a cell's place such as `AB12`, from 0.
fn column(place: &str) -> Option<usize> {
    let letters = place.bytes().take_while(u8::is_ascii_alphabetic);
    let number =
        letters.take(4).fold(0, |number, letter| number * 26 + usize::from(letter.to_ascii_uppercase() - b'A') + 1);
    number.checked_sub(1)
}
