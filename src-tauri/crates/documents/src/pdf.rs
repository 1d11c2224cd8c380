//! PDF: the text of each page, from the operators that show text.
//!
//! Specification: ISO 32000-1, chapter 9. `font` maps codes to text, often through a `unicode_map`, `page` runs the operators and puts lines together. Text is in
//! the order of the page's contents. Pictures are not read, so a scanned page has no text.

mod font;
mod page;
mod unicode_map;

use lopdf::{DecompressError, Document, LoadOptions};

use crate::parts::Parts;
use crate::{Error, Limits, PartPlace};
use page::{Budget, Reader};

/// Most bytes of one stream after decompression.
const MAX_STREAM_BYTES: u64 = 128 << 20;

/// Reads all pages and returns their number.
pub(crate) fn read(bytes: &[u8], limits: &Limits, parts: &mut Parts<'_>) -> Result<u32, Error> {
    let stream_bytes = limits.inflated_bytes.min(MAX_STREAM_BYTES);
    let options = LoadOptions::with_max_decompressed_size(stream_bytes as usize);
    let document = Document::load_mem_with_options(bytes, options).map_err(|error| failure(error, limits))?;
    if document.is_encrypted() {
        return Err(Error::Encrypted);
    }
    let mut reader = Reader::new(&document, Budget::new(limits));
    let mut pages = 0;
    for page in document.page_iter() {
        pages += 1;
        if pages as usize > limits.parts {
            return Err(Error::too_many("pages", limits.parts));
        }
        let text = reader.page(page, parts)?;
        parts.add(PartPlace::Page { number: pages }, text)?;
    }
    match pages {
        0 => Err(Error::damaged("the PDF has no pages")),
        pages => Ok(pages),
    }
}

/// Returns the error of a document that cannot be loaded.
fn failure(error: lopdf::Error, limits: &Limits) -> Error {
    match error {
        lopdf::Error::Decompress(DecompressError::MemoryLimitExceeded { .. }) => {
            Error::InflatesTooMuch { limit_bytes: limits.inflated_bytes.min(MAX_STREAM_BYTES) }
        }
        lopdf::Error::InvalidPassword | lopdf::Error::Decryption(_) => Error::Encrypted,
        error => Error::damaged(error),
    }
}
