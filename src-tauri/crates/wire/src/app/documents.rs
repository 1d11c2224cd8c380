//! `/app/documents`: the text of documents, in parts.

use serde::{Deserialize, Serialize};

/// `POST /app/documents?name=`: the text of a document. Its bytes are the request's body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentText {
    /// File name, as the client sent it.
    pub name: String,
    /// Format of the file.
    pub format: DocumentFormat,
    /// Pages, sheets, slides or sections that have text, in the order of the document.
    pub parts: Vec<DocumentPart>,
    /// Pages, sheets or slides of the document, with those that have no text; absent for formats without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<u32>,
    /// Characters of all parts.
    pub chars: u64,
}

/// Format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentFormat {
    /// Portable Document Format.
    Pdf,
    /// Word document.
    Docx,
    /// Excel workbook.
    Xlsx,
    /// PowerPoint presentation.
    Pptx,
    /// Web page.
    Html,
    /// Markdown.
    Markdown,
    /// Any other text.
    Text,
}

/// Part of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentPart {
    /// Place in the document.
    pub place: PartPlace,
    /// Text of the part.
    pub text: String,
}

/// Place of a part in its document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum PartPlace {
    /// The document, or its beginning before the first heading.
    Whole,
    /// A page.
    Page {
        /// Number of the page, from 1.
        number: u32,
    },
    /// A slide.
    Slide {
        /// Number of the slide, from 1.
        number: u32,
    },
    /// A sheet of a workbook.
    Sheet {
        /// Name of the sheet.
        name: String,
    },
    /// A section below a heading.
    Heading {
        /// Text of the heading.
        text: String,
    },
}
