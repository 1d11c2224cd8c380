//! Creates, lists, changes and deletes collections.

use cairn_collections::CollectionStore;

use super::error::Error;
use super::handle::{Collections, Shared};
use crate::values::{Collection, CollectionChange, CollectionResponse, NewCollectionRequest};

/// Random bytes of an id.
const ID_BYTES: usize = 12;
/// Capability of embedding models.
const EMBEDDING: &str = "embedding";

impl Collections {
    /// Returns all collections, by name.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn list(&self) -> Result<Vec<Collection>, Error> {
        let list = |shared: &Shared, store: &CollectionStore| {
            let stored = store.collections()?.into_iter();
            stored.map(|stored| shared.describe_collection(store, stored)).collect()
        };
        self.0.blocking(list).await
    }

    /// Returns a collection with its documents.
    ///
    /// # Errors
    /// If there is no such collection, or the database cannot be read.
    pub async fn collection(&self, id: &str) -> Result<CollectionResponse, Error> {
        let id = id.to_owned();
        let read = move |shared: &Shared, store: &CollectionStore| {
            let stored = store.collection(&id)?;
            let progress = shared.progress(store, &stored)?;
            let documents = store.documents(&id)?.into_iter();
            let documents = documents.map(|document| shared.describe_document(document, &progress)).collect();
            Ok(CollectionResponse { collection: shared.describe_collection(store, stored)?, documents })
        };
        self.0.blocking(read).await
    }

    /// Creates a collection.
    ///
    /// # Errors
    /// If the name is invalid, the model is not an embedding model, or the database cannot be written.
    pub async fn create(&self, request: NewCollectionRequest) -> Result<Collection, Error> {
        let create = move |shared: &Shared, store: &CollectionStore| {
            let NewCollectionRequest { name, model } = request;
            let model = match model {
                Some(model) => shared.chosen_model(&model)?,
                None => shared.installed_model(),
            };
            let stored = store.create(&new_id(), &name, model.as_deref(), shared.now_ms())?;
            shared.changed();
            shared.describe_collection(store, stored)
        };
        self.0.blocking(create).await
    }

    /// Changes the name or the embedding model of a collection.
    ///
    /// # Errors
    /// If there is no such collection, the name is invalid, the model is not an embedding model, or the database cannot be written.
    pub async fn change(&self, id: &str, change: CollectionChange) -> Result<Collection, Error> {
        let id = id.to_owned();
        let apply = move |shared: &Shared, store: &CollectionStore| {
            let CollectionChange { name, model } = change;
            // Nothing changes if the model is wrong.
            let model = model.map(|model| shared.chosen_model(&model)).transpose()?;
            if let Some(name) = name {
                store.rename(&id, &name)?;
            }
            if let Some(model) = model {
                store.set_model(&id, model.as_deref())?;
            }
            shared.failures.lock().remove(&id);
            let changed = shared.describe_collection(store, store.collection(&id)?);
            shared.changed();
            changed
        };
        self.0.blocking(apply).await
    }

    /// Deletes a collection with all its documents. Copies in other files are removed within seconds.
    ///
    /// # Errors
    /// If there is no such collection, or the database cannot be written.
    pub async fn delete(&self, id: &str) -> Result<(), Error> {
        let id = id.to_owned();
        let delete = move |shared: &Shared, store: &CollectionStore| {
            store.delete(&id)?;
            shared.failures.lock().remove(&id);
            shared.changed();
            shared.request_upkeep_of_open();
            Ok(())
        };
        self.0.blocking(delete).await
    }

    /// Removes a document from a collection. Copies in other files are removed within seconds.
    ///
    /// # Errors
    /// If there is no such collection or document, or the database cannot be written.
    pub async fn remove_document(&self, id: &str, document: &str) -> Result<(), Error> {
        let (id, document) = (id.to_owned(), document.to_owned());
        let remove = move |shared: &Shared, store: &CollectionStore| {
            store.remove_document(&id, &document)?;
            shared.changed();
            shared.request_upkeep_of_open();
            Ok(())
        };
        self.0.blocking(remove).await
    }
}

/// A random id.
fn new_id() -> String {
    let mut bytes = [0; ID_BYTES];
    getrandom::fill(&mut bytes).expect("the system provided random numbers before");
    hex::encode(bytes)
}

impl Shared {
    /// Returns the name of an installed embedding model; `None` for an empty text.
    fn chosen_model(&self, name: &str) -> Result<Option<String>, Error> {
        if name.trim().is_empty() {
            return Ok(None);
        }
        let summary = self.library.show(name, false)?.summary;
        match summary.capabilities.iter().any(|capability| capability == EMBEDDING) {
            true => Ok(Some(summary.name)),
            false => Err(Error::NoEmbeddings(name.to_owned())),
        }
    }

    /// Returns the name of the newest embedding model. Libraries that cannot be read have none.
    fn installed_model(&self) -> Option<String> {
        let models = self.library.list().unwrap_or_default();
        let embeds = |capabilities: &[String]| capabilities.iter().any(|capability| capability == EMBEDDING);
        models.into_iter().find(|model| embeds(&model.capabilities)).map(|model| model.name)
    }
}
