//! `ToUnicode` maps of fonts: codes of one to four bytes to text.
//!
//! Specification: ISO 32000-1, 9.10.3, and Adobe Technical Note 5411. Programs write these maps in many ways, so only the sections
//! with codes are read, and what does not fit is skipped.

use std::collections::HashMap;

/// Most codes and ranges of one map.
const MAX_ENTRIES: usize = 1 << 17;
/// Longest text of one code, in UTF-16 code units.
const MAX_TEXT_UNITS: usize = 64;

/// Code with its number of bytes.
type Code = (usize, u32);

/// A map of codes to text.
#[derive(Debug, Default)]
pub(super) struct UnicodeMap {
    chars: HashMap<Code, String>,
    ranges: Vec<Range>,
    /// Whether codes have one, two, three or four bytes.
    lengths: [bool; 4],
}

/// Consecutive codes with consecutive characters.
#[derive(Debug)]
struct Range {
    code_bytes: usize,
    first: u32,
    last: u32,
    /// Text of the first code.
    units: Vec<u16>,
}

/// A token of the map's language.
#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    /// Bytes of a hexadecimal string.
    Hex(Vec<u8>),
    ArrayStart,
    ArrayEnd,
    Word(&'a [u8]),
}

impl UnicodeMap {
    /// Reads a map; `None` if it maps no code.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let mut map = Self::default();
        let (mut rest, mut operands, mut array) = (text, Vec::<Vec<u8>>::new(), None::<Vec<Vec<u8>>>);
        let mut section: &[u8] = b"";
        while let Some((token, after)) = token(rest) {
            rest = after;
            match token {
                Token::Word(word) => {
                    (operands, array) = (Vec::new(), None);
                    match word {
                        b"begincodespacerange" | b"beginbfchar" | b"beginbfrange" => section = word,
                        word if word.starts_with(b"end") => section = b"",
                        _ => {}
                    }
                }
                Token::ArrayStart => array = Some(Vec::new()),
                Token::ArrayEnd => {
                    if let ([first, _], Some(texts)) = (&operands[..], array.take()) {
                        map.add_each(section, first, texts);
                    }
                    operands.clear();
                }
                Token::Hex(bytes) => match (&mut array, section) {
                    (Some(texts), _) if texts.len() < MAX_ENTRIES => texts.push(bytes),
                    (Some(_), _) => {}
                    (None, b"") => {}
                    (None, section) => {
                        operands.push(bytes);
                        map.add(section, &mut operands);
                    }
                },
            }
        }
        (!map.chars.is_empty() || !map.ranges.is_empty()).then_some(map)
    }

    /// Adds the entry of complete operands.
    fn add(&mut self, section: &[u8], operands: &mut Vec<Vec<u8>>) {
        if self.chars.len() + self.ranges.len() >= MAX_ENTRIES {
            operands.clear();
            return;
        }
        match (section, &operands[..]) {
            (b"begincodespacerange", [first, _]) => {
                if let Some((code_bytes, _)) = code(first) {
                    self.lengths[code_bytes - 1] = true;
                }
            }
            (b"beginbfchar", [source, text]) => {
                if let Some(code) = code(source) {
                    self.lengths[code.0 - 1] = true;
                    self.chars.insert(code, String::from_utf16_lossy(&units(text)));
                }
            }
            (b"beginbfrange", [first, last, text]) => {
                if let (Some((code_bytes, first)), Some((_, last))) = (code(first), code(last)) {
                    self.lengths[code_bytes - 1] = true;
                    self.ranges.push(Range { code_bytes, first, last, units: units(text) });
                }
            }
            _ => return,
        }
        operands.clear();
    }

    /// Adds a range with a text for each code.
    fn add_each(&mut self, section: &[u8], first: &[u8], texts: Vec<Vec<u8>>) {
        let Some((code_bytes, first)) = code(first).filter(|_| section == b"beginbfrange") else { return };
        self.lengths[code_bytes - 1] = true;
        let room = MAX_ENTRIES.saturating_sub(self.chars.len() + self.ranges.len());
        for (code, text) in (first..).zip(texts).take(room) {
            self.chars.insert((code_bytes, code), String::from_utf16_lossy(&units(&text)));
        }
    }

    /// Adds the text of a shown string. Codes without text are skipped.
    pub(super) fn decode(&self, mut shown: &[u8], text: &mut String) {
        let shortest = self.lengths.iter().position(|is_used| *is_used).unwrap_or(0) + 1;
        while !shown.is_empty() {
            let lengths = (1..=shown.len().min(4)).filter(|length| self.lengths[length - 1]);
            let found = lengths.filter_map(|length| Some((length, self.text(code(&shown[..length])?)?))).next();
            let length = match found {
                Some((length, found)) => {
                    text.push_str(&found);
                    length
                }
                None => shortest.min(shown.len()),
            };
            shown = &shown[length..];
        }
    }

    /// Returns the text of a code.
    fn text(&self, (code_bytes, code): Code) -> Option<String> {
        if let Some(text) = self.chars.get(&(code_bytes, code)) {
            return Some(text.clone());
        }
        let range = self
            .ranges
            .iter()
            .find(|range| range.code_bytes == code_bytes && (range.first..=range.last).contains(&code))?;
        let mut units = range.units.clone();
        let last = units.last_mut()?;
        *last = last.wrapping_add(u16::try_from(code - range.first).ok()?);
        Some(String::from_utf16_lossy(&units))
    }
}

/// Returns a code of one to four bytes.
fn code(bytes: &[u8]) -> Option<Code> {
    let is_code = (1..=4).contains(&bytes.len());
    is_code.then(|| (bytes.len(), bytes.iter().fold(0, |code, byte| code << 8 | u32::from(*byte))))
}

/// Returns UTF-16 code units of bytes. One byte is one unit.
fn units(bytes: &[u8]) -> Vec<u16> {
    match bytes {
        [one] => vec![u16::from(*one)],
        bytes => bytes.as_chunks::<2>().0.iter().take(MAX_TEXT_UNITS).map(|pair| u16::from_be_bytes(*pair)).collect(),
    }
}

/// Returns the next token and the rest.
fn token(text: &[u8]) -> Option<(Token<'_>, &[u8])> {
    let mut rest = text;
    loop {
        let first = *rest.first()?;
        match first {
            b'%' => {
                let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
                rest = &rest[end..];
            }
            b'[' => return Some((Token::ArrayStart, &rest[1..])),
            b']' => return Some((Token::ArrayEnd, &rest[1..])),
            // The start of a dictionary.
            b'<' if rest.get(1) == Some(&b'<') => rest = &rest[2..],
            b'<' => {
                let end = rest.iter().position(|byte| *byte == b'>').unwrap_or(rest.len());
                let digits = rest[1..end].iter().filter_map(|byte| char::from(*byte).to_digit(16));
                let digits: Vec<u8> = digits.map(|digit| digit as u8).collect();
                let bytes = digits.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or(0)).collect();
                return Some((Token::Hex(bytes), rest.get(end + 1..).unwrap_or_default()));
            }
            first if first.is_ascii_alphanumeric() => {
                let end = rest.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                return Some((Token::Word(word), after));
            }
            _ => rest = &rest[1..],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_all_forms_are_read() {
        let check = |map: &str, shown: &[u8], expected: &str| {
            let map = UnicodeMap::parse(map.as_bytes()).expect("the map has codes");
            let mut text = String::new();
            map.decode(shown, &mut text);
            assert_eq!(text, expected, "{map:?}");
        };
        check(
            "1 begincodespacerange <00><ff> endcodespacerange 2 beginbfchar <01><0041><02> <00660069> endbfchar",
            &[1, 2, 9, 1],
            "AfiA",
        );
        check(
            "beginbfrange\n<0005> <0007> <0061>\n<0010> <0011> [<0078> <00790079>]\nendbfrange",
            &[0, 5, 0, 7, 0, 0x11, 0, 0x10],
            "acyyx",
        );
        check("1 beginbfchar <0001> <D83DDE00> endbfchar % <0002> <0041>", &[0, 1, 0, 2], "😀");
        check("<< /Registry (Adobe) >> def 1 beginbfchar <1> <41> endbfchar", &[0x10], "A");
        assert!(UnicodeMap::parse(b"/CIDInit begincmap endcmap").is_none(), "no codes");
        assert!(UnicodeMap::parse(b"beginbfrange <00> <ff> [<0041> <").is_none(), "cut off");
    }
}
