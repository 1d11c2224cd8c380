//! Why a document has no text. The extracting process sends the error to the daemon as JSON.

use serde::{Deserialize, Serialize};

/// Why a document has no text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Error {
    /// The file is none of the formats.
    #[error(
        "the file is not a document that Cairn can read: PDF, DOCX, XLSX, PPTX, HTML, Markdown and text in UTF-8 are"
    )]
    UnknownFormat,
    /// A document of Office 97 to 2003, or an encrypted one of a later version, which is stored in the same container.
    #[error(
        "the file is an Office document in the format of 1997, or encrypted: save it as DOCX, XLSX or PPTX without a password"
    )]
    OldOffice,
    /// The file breaks its format.
    #[error("the document is damaged: {reason}")]
    Damaged {
        /// The fault.
        reason: String,
    },
    /// The document has a password.
    #[error("the document is encrypted: save it without a password")]
    Encrypted,
    /// A PDF with pictures of pages only.
    #[error("the PDF has only pictures of its {pages} pages and no text: recognise its text with an OCR program first")]
    NoTextLayer {
        /// Number of pages.
        pages: u32,
    },
    /// The document has no text.
    #[error("the document has no text")]
    NoText,
    /// The file is too large.
    #[error("the document is larger than {} MiB", limit_bytes >> 20)]
    FileTooLarge {
        /// Largest file.
        limit_bytes: u64,
    },
    /// Decompression exceeds the limit.
    #[error("the document inflates to more than {} MiB", limit_bytes >> 20)]
    InflatesTooMuch {
        /// Most bytes.
        limit_bytes: u64,
    },
    /// The document has too many or too deep elements.
    #[error("the document has more than {limit} {what}")]
    TooMany {
        /// Name of the counted things.
        what: String,
        /// Largest number.
        limit: usize,
    },
}

impl Error {
    pub(crate) fn damaged(reason: impl std::fmt::Display) -> Self {
        // A parser may quote the whole document.
        Self::Damaged { reason: cairn_wire::excerpt(&reason.to_string()).to_string() }
    }

    pub(crate) fn too_many(what: &str, limit: usize) -> Self {
        Self::TooMany { what: what.to_owned(), limit }
    }
}
