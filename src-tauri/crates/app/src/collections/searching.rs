//! Searches in a collection.

use std::sync::Arc;

use cairn_collections::{CollectionStore, QueryVector, StoredCollection};

use super::error::Error;
use super::handle::{Collections, Shared, digest_of};
use crate::inference::{Embed, EmbedInput};
use crate::values::{CollectionHits, WordsOnly};

/// Hits of a search without a limit.
const DEFAULT_HITS: usize = 5;
/// Most hits of a search.
pub const MAX_HITS: usize = 100;

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
        let (id, query) = (id.to_owned(), query.to_owned());
        let stored = {
            let id = id.clone();
            self.0.blocking(move |_, store| Ok(store.collection(&id)?)).await?
        };
        let (vector, words_only) = match self.0.query_vector(&stored, &query).await {
            Ok(vector) => (Some(vector), None),
            Err(reason) => (None, Some(reason)),
        };
        let search =
            move |_: &Shared, store: &CollectionStore| Ok(store.search(&id, &query, vector.as_ref(), limit)?);
        Ok(CollectionHits { hits: self.0.blocking(search).await?, words_only })
    }
}

impl Shared {
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
