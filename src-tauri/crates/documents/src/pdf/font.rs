//! Fonts: codes of a shown string to text, and their widths.

use std::collections::HashMap;

use encoding_rs::{BIG5, EUC_KR, Encoding as Charset, GBK, SHIFT_JIS, UTF_16BE};
use lopdf::{DecompressError, Dictionary, Document, Object};

use super::unicode_map::UnicodeMap;

/// Width of a glyph that the font has no width of, in thousandths of its size.
const DEFAULT_WIDTH: f32 = 500.0;
const DEFAULT_WIDE_WIDTH: f32 = 1000.0;
/// Most entries of a table of widths.
const MAX_WIDTHS: usize = 1 << 16;

/// A font's table of codes.
enum Codes {
    /// Text of each one-byte code.
    Bytes(Box<[String]>),
    /// The font's own map to Unicode.
    Map(UnicodeMap),
    /// A character set of East Asian fonts.
    Charset(&'static Charset),
    /// Nothing maps the codes to text.
    Unknown,
}

/// A font, read once for each document.
pub(super) struct Font {
    codes: Codes,
    /// Bytes of a code.
    code_bytes: usize,
    widths: HashMap<u32, f32>,
    default_width: f32,
}

impl Font {
    /// A font that shows codes as Latin letters, for pages that do not define theirs.
    pub(super) fn unknown() -> Self {
        Self { codes: Codes::Unknown, code_bytes: 1, widths: HashMap::new(), default_width: DEFAULT_WIDTH }
    }

    pub(super) fn read(font: &Dictionary, document: &Document, max_bytes: usize) -> lopdf::Result<Self> {
        let is_composite = font.get(b"Subtype").and_then(Object::as_name).is_ok_and(|name| name == b"Type0");
        let codes = codes(font, document, is_composite, max_bytes)?;
        let mut widths = HashMap::new();
        let mut default_width = if is_composite { DEFAULT_WIDE_WIDTH } else { DEFAULT_WIDTH };
        match is_composite {
            true => {
                let descendant = font.get_deref(b"DescendantFonts", document).and_then(Object::as_array).ok();
                let descendant = descendant.and_then(|fonts| fonts.first());
                let descendant = descendant.and_then(|font| document.dereference(font).ok()?.1.as_dict().ok());
                if let Some(descendant) = descendant {
                    default_width = number(descendant, b"DW", document).unwrap_or(default_width);
                    composite_widths(descendant, document, &mut widths);
                }
            }
            false => simple_widths(font, document, &mut widths),
        }
        Ok(Self { codes, code_bytes: if is_composite { 2 } else { 1 }, widths, default_width })
    }

    /// Adds the text of a shown string.
    pub(super) fn decode(&self, shown: &[u8], text: &mut String) {
        match &self.codes {
            Codes::Bytes(table) => {
                shown.iter().filter_map(|byte| table.get(usize::from(*byte))).for_each(|part| text.push_str(part));
            }
            Codes::Map(map) => map.decode(shown, text),
            Codes::Charset(charset) => text.push_str(&charset.decode_without_bom_handling(shown).0),
            Codes::Unknown => {}
        }
    }

    /// Returns the number of codes in a shown string, those that are a space, and the sum of their widths.
    pub(super) fn measure(&self, shown: &[u8]) -> (usize, usize, f32) {
        let mut measured = (0, 0, 0.0);
        for code in shown.chunks(self.code_bytes) {
            let code = code.iter().fold(0, |code, byte| code << 8 | u32::from(*byte));
            measured.0 += 1;
            measured.1 += usize::from(code == 32 && self.code_bytes == 1);
            measured.2 += self.widths.get(&code).copied().unwrap_or(self.default_width);
        }
        measured
    }
}

fn codes(font: &Dictionary, document: &Document, is_composite: bool, max_bytes: usize) -> lopdf::Result<Codes> {
    // A map to Unicode overrides the encoding: its names may be arbitrary in an embedded font.
    if let Ok(stream) = font.get_deref(b"ToUnicode", document).and_then(Object::as_stream) {
        let map = stream.get_plain_content_with_limit(max_bytes);
        match map.map(|map| UnicodeMap::parse(&map)) {
            Ok(Some(map)) => return Ok(Codes::Map(map)),
            Err(error @ lopdf::Error::Decompress(DecompressError::MemoryLimitExceeded { .. })) => return Err(error),
            Ok(None) | Err(_) => {}
        }
    }
    if is_composite {
        let name = font.get_deref(b"Encoding", document).and_then(Object::as_name).unwrap_or_default();
        return Ok(charset(name).map_or(Codes::Unknown, Codes::Charset));
    }
    let mut typed = font.clone();
    typed.remove(b"ToUnicode");
    typed.set("Type", Object::Name(b"Font".to_vec()));
    let encoding = typed.get_font_encoding_with_limit(document, max_bytes)?;
    let table = (0..=u8::MAX).map(|byte| encoding.bytes_to_string(&[byte]).unwrap_or_default());
    Ok(Codes::Bytes(table.collect()))
}

/// Returns the character set of a predefined map of codes (ISO 32000-1, table 118).
fn charset(name: &[u8]) -> Option<&'static Charset> {
    let name = str::from_utf8(name).ok()?;
    let has = |part: &str| name.contains(part);
    match () {
        () if has("UCS2") || has("UTF16") => Some(UTF_16BE),
        () if name.starts_with("GB") => Some(GBK),
        () if name.starts_with("ETen") || name.starts_with("B5") || name.starts_with("HK") => Some(BIG5),
        () if has("RKSJ") => Some(SHIFT_JIS),
        () if name.starts_with("KSC") => Some(EUC_KR),
        () => None,
    }
}

fn number(dictionary: &Dictionary, key: &[u8], document: &Document) -> Option<f32> {
    dictionary.get_deref(key, document).ok()?.as_float().ok()
}

fn simple_widths(font: &Dictionary, document: &Document, widths: &mut HashMap<u32, f32>) {
    let first = number(font, b"FirstChar", document).unwrap_or(0.0) as u32;
    let Ok(listed) = font.get_deref(b"Widths", document).and_then(Object::as_array) else { return };
    for (code, width) in (first..).zip(listed).take(256) {
        if let Ok(width) = document.dereference(width).and_then(|(_, width)| width.as_float()) {
            widths.insert(code, width);
        }
    }
}

/// Reads `W` of a composite font: `first [w w ...]` and `first last w`.
fn composite_widths(font: &Dictionary, document: &Document, widths: &mut HashMap<u32, f32>) {
    let Ok(listed) = font.get_deref(b"W", document).and_then(Object::as_array) else { return };
    let mut items = listed.iter().filter_map(|item| document.dereference(item).ok().map(|(_, item)| item));
    while let (Some(first), Some(second)) = (items.next().and_then(|first| first.as_float().ok()), items.next()) {
        let first = first as u32;
        match second {
            Object::Array(each) => {
                for (code, width) in (first..).zip(each).take(MAX_WIDTHS.saturating_sub(widths.len())) {
                    widths.insert(code, width.as_float().unwrap_or(DEFAULT_WIDE_WIDTH));
                }
            }
            last => {
                let (Ok(last), Some(Ok(width))) = (last.as_float(), items.next().map(Object::as_float)) else { return };
                for code in (first..=last as u32).take(MAX_WIDTHS.saturating_sub(widths.len())) {
                    widths.insert(code, width);
                }
            }
        }
    }
}
