//! The text of documents that a client attaches. Documents are read in a process of their own.

mod error;
mod extractor;

use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;

pub use cairn_documents::{Error as DocumentError, Limits};
pub use error::Error;
pub use extractor::Extractor;

use crate::values::{DocumentPart, DocumentText};

/// Documents that are read at once. Others wait.
const MAX_AT_ONCE: usize = 2;

/// Use cases of documents. Clones share everything.
#[derive(Clone, Debug)]
pub struct Documents {
    extractor: Arc<Extractor>,
    turns: Arc<Semaphore>,
}

impl Documents {
    pub(crate) fn new(extractor: Extractor) -> Self {
        Self { extractor: Arc::new(extractor), turns: Arc::new(Semaphore::new(MAX_AT_ONCE)) }
    }

    /// Returns the text of a document. Dropping the future ends the process that reads it.
    ///
    /// # Errors
    /// If the document has no text that can be read, exceeds a limit, or the process that reads it fails.
    pub async fn text(&self, name: &str, bytes: Vec<u8>) -> Result<DocumentText, Error> {
        let _turn = self.turns.acquire().await.expect("the semaphore is never closed");
        let extension = Path::new(name).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let extracted = self.extractor.extract(extension, bytes).await?;
        let chars = extracted.parts.iter().map(|part: &DocumentPart| part.text.chars().count() as u64).sum();
        Ok(DocumentText {
            name: name.to_owned(),
            format: extracted.format,
            parts: extracted.parts,
            pages: extracted.pages,
            chars,
        })
    }
}
