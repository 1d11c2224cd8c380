//! The text of documents: PDF, DOCX, XLSX, PPTX, HTML, Markdown and text files.
//!
//! [`extract`] reads the bytes of a file and returns its text in parts: pages, sheets, slides or sections below a heading. It
//! opens no file and no connection, so links in a document are never followed. [`Limits`] bounds the bytes that are read and
//! inflated, the text and the number of parts. It does not bound time or memory of a parser: the daemon calls it in a process of
//! its own, which may crash.
//!
//! **Invariants:** the same bytes give the same text. A text has no control characters except tab and newline. A document
//! without text is an error, never an empty result.
#![forbid(unsafe_code)]

mod docx;
mod error;
mod format;
mod html;
mod limits;
mod line;
mod markdown;
mod package;
mod parts;
mod pdf;
mod pptx;
mod web;
mod xlsx;
mod xml;

#[cfg(test)]
mod tests;

pub use cairn_wire::app::documents::{DocumentFormat, DocumentPart, PartPlace};
pub use error::Error;
pub use html::LinkAddress;
pub use limits::Limits;
pub use line::Line;
pub use web::{WebPage, decode, read_web_page};

use parts::Parts;

/// The text of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// Format of the file.
    pub format: DocumentFormat,
    /// Pages, sheets, slides or sections that have text, in the order of the document.
    pub parts: Vec<DocumentPart>,
    /// Pages, sheets or slides of the document, with those that have no text; `None` for formats without them.
    pub pages: Option<u32>,
}

/// Returns the text of a file. `extension` is that of its name, without the dot; it decides between formats of text.
///
/// # Errors
/// If the format is unknown, the file is damaged, encrypted or without text, or exceeds a limit.
pub fn extract(bytes: &[u8], extension: &str, limits: &Limits) -> Result<Extracted, Error> {
    if bytes.len() as u64 > limits.file_bytes {
        return Err(Error::FileTooLarge { limit_bytes: limits.file_bytes });
    }
    let format = format::detect(bytes, extension)?;
    let mut parts = Parts::new(limits);
    let pages = match format {
        DocumentFormat::Pdf => Some(pdf::read(bytes, limits, &mut parts)?),
        DocumentFormat::Docx => docx::read(bytes, limits, &mut parts).map(|()| None)?,
        DocumentFormat::Xlsx => Some(xlsx::read(bytes, limits, &mut parts)?),
        DocumentFormat::Pptx => Some(pptx::read(bytes, limits, &mut parts)?),
        DocumentFormat::Html => html::read(bytes, &mut parts).map(|()| None)?,
        DocumentFormat::Markdown => markdown::read(format::text(bytes)?, &mut parts).map(|()| None)?,
        DocumentFormat::Text => parts.add(PartPlace::Whole, format::text(bytes)?).map(|()| None)?,
    };
    let parts = parts.finish();
    match (parts.is_empty(), format, pages) {
        (true, DocumentFormat::Pdf, Some(pages)) => Err(Error::NoTextLayer { pages }),
        (true, ..) => Err(Error::NoText),
        (false, ..) => Ok(Extracted { format, parts, pages }),
    }
}
