//! The background task that computes vectors of chunks, in batches with batch priority.
//!
//! Each batch is stored before the next one is computed, so that a restart repeats at most one. A collection with a model that fails
//! is left out until [`RETRY_DELAY`] is over or something changes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use cairn_collections::{CollectionStore, PendingChunk, StoredCollection};
use tokio::sync::Notify;

use super::error::Error;
use super::handle::{Shared, digest_of};
use crate::inference::{Embed, EmbedInput};
use crate::panics;

/// Chunks of a batch: about a second of a small model on a slow machine.
const BATCH: usize = 16;
/// Time after which a collection is tried again that failed.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// Work of the task.
enum Work {
    /// Find out whether a model reads scripts without spaces.
    Check { model: Model },
    /// Compute vectors.
    Embed { model: Model, chunks: Vec<PendingChunk> },
}

/// An embedding model, and the collection that needs it.
struct Model {
    collection: String,
    name: String,
    digest: String,
}

impl Shared {
    /// Starts the task. It ends when the last handle is dropped or the daemon shuts down.
    pub(super) fn start_embedding(self: &Arc<Self>) {
        tokio::spawn(run(Arc::clone(&self.wake), Arc::downgrade(self)));
    }

    /// Does work until there is none.
    async fn embed_all(self: &Arc<Self>) {
        loop {
            let work = match self.blocking(|shared, store| shared.next_work(store)).await {
                Ok(Some(work)) => work,
                Ok(None) | Err(Error::ShuttingDown) => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot compute vectors of collections");
                    return;
                }
            };
            let (Work::Check { model } | Work::Embed { model, .. }) = &work;
            let collection = model.collection.clone();
            let done = match panics::catch(self.run_work(work)).await {
                Ok(done) => done,
                Err(panicked) => Err(panicked.into()),
            };
            if self.is_ending() {
                return;
            }
            if let Err(error) = done {
                tracing::warn!(%error, collection, "cannot compute vectors; trying again in {RETRY_DELAY:?}");
                self.failures.lock().insert(collection, (self.describe)(&error));
            }
            self.progressed();
        }
    }

    /// Returns the next work; `None` if there is none now. Blocks.
    fn next_work(&self, store: &CollectionStore) -> Result<Option<Work>, Error> {
        for stored in store.collections()? {
            let is_left_out = stored.model.is_none() || self.failures.lock().contains_key(&stored.id);
            if is_left_out || stored.chunks == 0 {
                continue;
            }
            match self.work_of(store, &stored) {
                Ok(None) => {}
                Ok(work) => return Ok(work),
                Err(error) => {
                    // Another collection may have a model that can be read.
                    let body = (self.describe)(&error);
                    self.failures.lock().insert(stored.id, body);
                    self.progressed();
                }
            }
        }
        Ok(None)
    }

    fn work_of(&self, store: &CollectionStore, stored: &StoredCollection) -> Result<Option<Work>, Error> {
        let Some(name) = stored.model.clone() else { return Ok(None) };
        let Some(found) = self.find_model(&name)? else { return Ok(None) };
        let model = Model { collection: stored.id.clone(), name, digest: digest_of(&found) };
        store.begin_vectors(&stored.id, &model.digest)?;
        let reads_dense = match store.reads_dense(&model.digest)? {
            Some(reads_dense) => reads_dense,
            None if stored.dense_chunks > 0 => return Ok(Some(Work::Check { model })),
            None => true,
        };
        let chunks = store.pending_chunks(&stored.id, reads_dense, BATCH)?;
        Ok((!chunks.is_empty()).then_some(Work::Embed { model, chunks }))
    }

    async fn run_work(self: &Arc<Self>, work: Work) -> Result<(), Error> {
        match work {
            Work::Check { model } => self.reads_dense(&model.name, &model.digest).await.map(drop),
            Work::Embed { model, chunks } => {
                let (rows, texts): (Vec<_>, Vec<_>) = chunks.into_iter().map(|chunk| (chunk.row, chunk.text)).unzip();
                let input = EmbedInput::Texts(texts);
                let embedded = self.background.embed(Embed { model: model.name, input, ..Embed::default() }).await?;
                let vectors: Vec<_> = rows.into_iter().zip(embedded.vectors).collect();
                let Model { collection, digest, .. } = model;
                self.blocking(move |_, store| Ok(store.store_vectors(&collection, &digest, &vectors)?)).await.map(drop)
            }
        }
    }

    /// Returns whether a model reads scripts without spaces. Loads the model the first time.
    pub(super) async fn reads_dense(self: &Arc<Self>, name: &str, digest: &str) -> Result<bool, Error> {
        let stored = digest.to_owned();
        if let Some(reads) = self.blocking(move |_, store| Ok(store.reads_dense(&stored)?)).await? {
            return Ok(reads);
        }
        let reads = self.background.reads_dense(name).await?;
        let digest = digest.to_owned();
        self.blocking(move |_, store| Ok(store.set_reads_dense(&digest, reads)?)).await?;
        Ok(reads)
    }
}

async fn run(wake: Arc<Notify>, shared: Weak<Shared>) {
    let mut has_failure = false;
    loop {
        match has_failure {
            true => drop(tokio::time::timeout(RETRY_DELAY, wake.notified()).await),
            false => wake.notified().await,
        }
        let Some(shared) = shared.upgrade() else { return };
        if shared.is_ending() {
            return;
        }
        shared.failures.lock().clear();
        shared.embed_all().await;
        has_failure = !shared.failures.lock().is_empty();
    }
}
