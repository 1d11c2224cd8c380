//! Searches in a collection.

use std::sync::Arc;
use std::time::Duration;

use cairn_collections::{CollectionStore, QueryVector, StoredCollection};

use super::error::Error;
use super::handle::{Collections, Shared, digest_of};
use crate::inference::{Embed, EmbedInput};
use crate::values::{CollectionHits, Sources, WordsOnly};

/// Hits of a search without a limit.
const DEFAULT_HITS: usize = 5;
/// Most hits of a search.
pub const MAX_HITS: usize = 100;
/// Longest wait for the vector of a query: other models may have to be unloaded for the embedding model.
const VECTOR_TIMEOUT: Duration = Duration::from_secs(20);
/// Most characters of a question that are searched for. A pasted text is found by its beginning.
const MAX_QUESTION_CHARS: usize = 2000;

impl Collections {
    /// Returns the chunks that answer a query, best first. If it cannot use meaning, it uses words only and reports why.
    ///
    /// # Errors
    /// If there is no such collection, the query is empty, or the database cannot be read.
    pub async fn search(&self, id: &str, query: &str, limit: Option<usize>) -> Result<CollectionHits, Error> {
        if query.trim().is_empty() {
            return Err(Error::NoQuery);
        }
        let limit = limit.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS);
        let stored = self.0.stored(id).await?;
        self.0.search(&stored, query, limit).await
    }

    /// Searches for the question of a chat. The result has the error of a failed search, so that the question can be sent without
    /// passages.
    pub(crate) async fn sources(&self, id: &str, question: &str) -> Sources {
        let mut sources = Sources {
            collection: id.to_owned(),
            name: String::new(),
            first: 1,
            hits: Vec::new(),
            words_only: None,
            error: None,
        };
        let found = async {
            let stored = self.0.stored(id).await?;
            sources.name.clone_from(&stored.name);
            let query = question.char_indices().nth(MAX_QUESTION_CHARS).map_or(question, |(end, _)| &question[..end]);
            self.0.search(&stored, query, DEFAULT_HITS).await
        };
        match found.await {
            Ok(CollectionHits { hits, words_only }) => Sources { hits, words_only, ..sources },
            Err(error) => {
                tracing::warn!(%error, "a question is sent without a search in its collection");
                Sources { error: Some((self.0.describe)(&error)), ..sources }
            }
        }
    }
}

impl Shared {
    async fn stored(self: &Arc<Self>, id: &str) -> Result<StoredCollection, Error> {
        let id = id.to_owned();
        self.blocking(move |_, store| Ok(store.collection(&id)?)).await
    }

    async fn search(
        self: &Arc<Self>,
        stored: &StoredCollection,
        query: &str,
        limit: usize,
    ) -> Result<CollectionHits, Error> {
        let found = tokio::time::timeout(VECTOR_TIMEOUT, self.query_vector(stored, query)).await;
        let (vector, words_only) = match found.unwrap_or(Err(WordsOnly::Timeout)) {
            Ok(vector) => (Some(vector), None),
            Err(reason) => (None, Some(reason)),
        };
        let (id, query) = (stored.id.clone(), query.to_owned());
        let search = move |_: &Self, store: &CollectionStore| Ok(store.search(&id, &query, vector.as_ref(), limit)?);
        Ok(CollectionHits { hits: self.blocking(search).await?, words_only })
    }

    /// Computes the vector of a query.
    async fn query_vector(self: &Arc<Self>, stored: &StoredCollection, query: &str) -> Result<QueryVector, WordsOnly> {
        let name = stored.model.clone().ok_or(WordsOnly::NoModel)?;
        let failed = |error: &Error| {
            tracing::warn!(%error, "a search in a collection uses words only");
            WordsOnly::ModelFailed
        };
        let found = {
            let name = name.clone();
            let found = self.blocking(move |shared, _| shared.find_model(&name)).await;
            found.map_err(|error| failed(&error))?.ok_or(WordsOnly::ModelMissing)?
        };
        let digest = digest_of(&found);
        if stored.vectors == 0 || stored.vector_model.as_ref() != Some(&digest) {
            return Err(WordsOnly::NoVectors);
        }
        if CollectionStore::is_dense(query) {
            match self.reads_dense(&name, &digest).await {
                Ok(true) => {}
                Ok(false) => return Err(WordsOnly::Script),
                Err(error) => return Err(failed(&error)),
            }
        }
        let input = EmbedInput::Texts(vec![query.to_owned()]);
        let embedded = self.inference.embed(Embed { model: name, input, ..Embed::default() }).await;
        let mut vectors = embedded.map_err(|error| failed(&error.into()))?.vectors;
        let vector = vectors.pop().ok_or(WordsOnly::ModelFailed)?;
        Ok(QueryVector { model: digest, vector })
    }
}
