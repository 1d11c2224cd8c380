//! Lines of JSON that the extracting process writes for the daemon: parts, and one last line.

use cairn_wire::app::documents::{DocumentFormat, DocumentPart};
use serde::{Deserialize, Serialize};

use crate::{Error, Extracted};

/// A line. Without [`Line::Done`] or [`Line::Failed`] at the end, the process crashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// A part.
    Part(DocumentPart),
    /// The end of a document with all its parts.
    Done {
        /// Format of the file.
        format: DocumentFormat,
        /// As [`Extracted::pages`].
        pages: Option<u32>,
    },
    /// The document has no text.
    Failed(Error),
}

impl Line {
    /// Returns the lines of a result.
    #[must_use]
    pub fn of(result: Result<Extracted, Error>) -> Vec<Self> {
        match result {
            Ok(Extracted { format, parts, pages }) => {
                parts.into_iter().map(Self::Part).chain([Self::Done { format, pages }]).collect()
            }
            Err(error) => vec![Self::Failed(error)],
        }
    }
}
