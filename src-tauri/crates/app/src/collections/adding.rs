//! Adds a document to a collection: stores its name, reads its text in a process of its own, stores its chunks.

use std::sync::Arc;

use cairn_collections::{CollectionStore, NewDocument, NewText, chunks};
use cairn_store::Digest;

use super::error::Error;
use super::handle::{Collections, Shared};
use crate::panics::{self, Panicked};
use crate::values::{CollectionDocument, DocumentText};

impl Collections {
    /// Adds a document, and returns it when its text is stored. Its vectors are computed later. If the collection has the same
    /// file already, returns that document. `memory` is dropped with the bytes.
    ///
    /// The document is added even if the future is dropped.
    ///
    /// # Errors
    /// If there is no such collection, a limit is reached, the document has no text that can be read, or the database cannot be
    /// written. A document that cannot be read stays in the collection with the error.
    pub async fn add_document(
        &self,
        id: &str,
        name: &str,
        bytes: Vec<u8>,
        memory: impl Send + 'static,
    ) -> Result<CollectionDocument, Error> {
        let (shared, id, name) = (Arc::clone(&self.0), id.to_owned(), name.to_owned());
        let add = async move {
            let added = shared.add(id, name, bytes).await;
            drop(memory);
            added
        };
        tokio::spawn(add).await.unwrap_or(Err(Panicked.into()))
    }
}

impl Shared {
    async fn add(self: &Arc<Self>, id: String, name: String, bytes: Vec<u8>) -> Result<CollectionDocument, Error> {
        let begin = {
            let (id, name) = (id.clone(), name.clone());
            move |shared: &Self, store: &CollectionStore| {
                let digest = Digest::of(&bytes).hex();
                let document = NewDocument { name: &name, digest: &digest, bytes: bytes.len() as u64 };
                let (document, is_new) = store.begin_document(&id, document, shared.now_ms())?;
                shared.changed();
                let described = shared.describe_in(store, &id, document)?;
                Ok((described, is_new, bytes))
            }
        };
        let (document, is_new, bytes) = self.blocking(begin).await?;
        if !is_new {
            return Ok(document);
        }
        let added = match panics::catch(self.documents.text(&name, bytes)).await {
            Ok(Ok(text)) => self.store_text(&id, &document.id, text).await,
            Ok(Err(error)) => Err(error.into()),
            Err(panicked) => Err(panicked.into()),
        };
        match added {
            Ok(document) => Ok(document),
            Err(error) => {
                let body = (self.describe)(&error);
                let fail = move |shared: &Self, store: &CollectionStore| {
                    store.fail_document(&id, &document.id, &body)?;
                    shared.changed();
                    Ok(())
                };
                // The document or its collection may be deleted already.
                if let Err(unmarked) = self.blocking(fail).await {
                    tracing::debug!(error = %unmarked, "cannot mark a document that failed");
                }
                Err(error)
            }
        }
    }

    async fn store_text(
        self: &Arc<Self>,
        id: &str,
        document: &str,
        text: DocumentText,
    ) -> Result<CollectionDocument, Error> {
        let (id, document) = (id.to_owned(), document.to_owned());
        let store = move |shared: &Self, store: &CollectionStore| {
            let text = NewText { format: text.format, pages: text.pages, chunks: chunks(&text.parts) };
            let stored = store.store_text(&id, &document, &text)?;
            shared.changed();
            // A backup may be due, and a document of the same file that failed before was deleted.
            shared.request_upkeep_of_open();
            shared.describe_in(store, &id, stored)
        };
        self.blocking(store).await
    }

    /// Returns a document of a collection as clients see it.
    fn describe_in(
        &self,
        store: &CollectionStore,
        id: &str,
        document: cairn_collections::StoredDocument,
    ) -> Result<CollectionDocument, Error> {
        let progress = self.progress(store, &store.collection(id)?)?;
        Ok(self.describe_document(document, &progress))
    }
}
