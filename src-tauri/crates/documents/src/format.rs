//! Detection of formats, by contents first.

use encoding_rs::{UTF_8, UTF_16BE, UTF_16LE};

use crate::{DocumentFormat, Error};

/// First bytes in which a PDF has its header, as Adobe's readers allow.
const PDF_HEADER_BYTES: usize = 1024;
/// First bytes of Office's older container.
const OLE: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";

/// Returns the format of a file.
pub(crate) fn detect(bytes: &[u8], extension: &str) -> Result<DocumentFormat, Error> {
    let start = &bytes[..bytes.len().min(PDF_HEADER_BYTES)];
    if start.windows(5).any(|window| window == b"%PDF-") {
        return Ok(DocumentFormat::Pdf);
    }
    if bytes.starts_with(OLE) {
        return Err(Error::OldOffice);
    }
    if bytes.starts_with(b"PK\x03\x04") {
        return crate::package::format(bytes);
    }
    let extension = extension.to_ascii_lowercase();
    let start = String::from_utf8_lossy(start).trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
    match extension.as_str() {
        "htm" | "html" | "xhtml" => Ok(DocumentFormat::Html),
        "md" | "markdown" | "mdown" => Ok(DocumentFormat::Markdown),
        _ if start.starts_with("<!doctype html") || start.starts_with("<html") => Ok(DocumentFormat::Html),
        _ => Ok(DocumentFormat::Text),
    }
}

/// Decodes a text file: UTF-8, or UTF-16 with a byte order mark.
pub(crate) fn text(bytes: &[u8]) -> Result<String, Error> {
    let encoding = match bytes {
        [0xff, 0xfe, ..] => UTF_16LE,
        [0xfe, 0xff, ..] => UTF_16BE,
        _ => UTF_8,
    };
    let (text, has_errors) = encoding.decode_with_bom_removal(bytes);
    match has_errors || text.contains('\0') {
        true => Err(Error::UnknownFormat),
        false => Ok(text.into_owned()),
    }
}
