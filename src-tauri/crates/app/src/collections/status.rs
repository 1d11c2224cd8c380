//! Status of collections and documents, as clients see it.

use cairn_collections::{CollectionStore, DocumentState, StoredCollection, StoredDocument};

use super::error::Error;
use super::handle::{Shared, digest_of};
use crate::values::{Collection, CollectionDocument, DocumentStatus, MeaningSearch};

/// Facts about the vectors of a collection, on which the status of its documents depends.
pub(super) struct Progress {
    /// Whether vectors are computed.
    pub(super) has_model: bool,
    /// Whether the stored vectors are those of the model.
    pub(super) is_current: bool,
    /// Whether the model cannot read scripts without spaces.
    pub(super) skips_dense: bool,
}

impl Shared {
    /// Returns the progress of a collection.
    pub(super) fn progress(&self, store: &CollectionStore, stored: &StoredCollection) -> Result<Progress, Error> {
        let model = match stored.model.as_deref().map(|name| self.find_model(name)) {
            Some(Ok(model)) => model,
            // The task that computes vectors reports the error.
            Some(Err(_)) => return Ok(Progress { has_model: true, is_current: false, skips_dense: false }),
            None => None,
        };
        let digest = model.as_ref().map(digest_of);
        let reads_dense = digest.as_deref().map(|digest| store.reads_dense(digest)).transpose()?.flatten();
        Ok(Progress {
            has_model: model.is_some(),
            is_current: digest.is_some() && stored.vector_model == digest,
            skips_dense: reads_dense == Some(false),
        })
    }

    /// Returns a collection as clients see it.
    pub(super) fn describe_collection(
        &self,
        store: &CollectionStore,
        stored: StoredCollection,
    ) -> Result<Collection, Error> {
        let progress = self.progress(store, &stored)?;
        let unreadable_chunks = if progress.skips_dense { stored.dense_chunks } else { 0 };
        let (done, total) = progress.counts(stored.vectors, stored.chunks, stored.dense_chunks);
        let failure = self.failures.lock().get(&stored.id).cloned();
        let meaning = match failure {
            _ if stored.model.is_none() => MeaningSearch::NoModel,
            _ if !progress.has_model => MeaningSearch::ModelMissing,
            Some(error) => MeaningSearch::Failed { error },
            None if done < total => MeaningSearch::Embedding { done, total },
            None => MeaningSearch::Ready,
        };
        Ok(Collection {
            id: stored.id,
            name: stored.name,
            created_at: stored.created_at,
            model: stored.model,
            documents: stored.documents,
            chunks: stored.chunks,
            unreadable_chunks,
            meaning,
        })
    }

    /// Returns a document as clients see it.
    pub(super) fn describe_document(&self, stored: StoredDocument, progress: &Progress) -> CollectionDocument {
        let unreadable_chunks = if progress.skips_dense { stored.dense_chunks } else { 0 };
        let (done, total) = progress.counts(stored.vectors, stored.chunks, stored.dense_chunks);
        let status = match stored.state {
            DocumentState::Reading => DocumentStatus::Reading,
            DocumentState::Failed(error) => {
                let error = error.unwrap_or_else(|| (self.describe)(&Error::Interrupted));
                DocumentStatus::Failed { error }
            }
            DocumentState::Stored if progress.has_model && done < total => DocumentStatus::Embedding { done, total },
            DocumentState::Stored => DocumentStatus::Ready,
        };
        CollectionDocument {
            id: stored.id,
            name: stored.name,
            format: stored.format,
            pages: stored.pages,
            bytes: stored.bytes,
            added_at: stored.added_at,
            chunks: stored.chunks,
            unreadable_chunks,
            status,
        }
    }
}

impl Progress {
    /// Returns the number of chunks with vectors, and of those that get vectors.
    pub(super) fn counts(&self, vectors: u64, chunks: u64, dense_chunks: u64) -> (u64, u64) {
        let total = if self.skips_dense { chunks.saturating_sub(dense_chunks) } else { chunks };
        (if self.is_current { vectors } else { 0 }, total)
    }
}
