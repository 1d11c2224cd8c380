//! The handle of collections. Clones share everything.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_collections::{CollectionStore, Repair};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::error::{DescribeError, Error};
use crate::clock::Clock;
use crate::documents::Documents;
use crate::inference::{Client, Inference, Priority};
use crate::library::catalog::Model;
use crate::library::{self, ModelLibrary};
use crate::panics::Panicked;
use crate::settings::Settings;
use crate::upkeep::Upkeep;
use crate::values::{ErrorBody, Timestamp};

/// Name of the client that computes vectors, among the clients of a model.
const CLIENT: &str = "collections";

/// Collections of documents that the daemon stores.
#[derive(Clone)]
pub struct Collections(pub(super) Arc<Shared>);

/// The database, and everything that fills it.
pub(super) struct Shared {
    path: PathBuf,
    /// Opened by the first use, so that a user without collections has no such file.
    store: Mutex<Option<Arc<CollectionStore>>>,
    /// Erases deleted documents and writes backups.
    upkeep: Arc<Upkeep>,
    pub(super) library: ModelLibrary,
    /// For queries.
    pub(super) inference: Inference,
    /// For chunks.
    pub(super) background: Inference,
    pub(super) documents: Documents,
    clock: Clock,
    pub(super) describe: DescribeError,
    /// Wakes the task that computes vectors.
    pub(super) wake: Arc<Notify>,
    /// Errors of that task, by collection, until it tries again.
    pub(super) failures: Mutex<HashMap<String, ErrorBody>>,
    /// Number of changes that the task and requests have made.
    changes: watch::Sender<u64>,
    /// The daemon is shutting down.
    ending: AtomicBool,
}

impl Collections {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(
        library: &ModelLibrary,
        inference: &Inference,
        documents: &Documents,
        settings: &Settings,
        clock: &Clock,
        describe: DescribeError,
    ) -> Self {
        let of_client = |priority| inference.for_client(Client { name: CLIENT.into(), priority });
        let shared = Arc::new(Shared {
            path: settings.places().data.join("collections").join("collections.sqlite"),
            store: Mutex::default(),
            upkeep: Upkeep::new(),
            library: library.clone(),
            inference: of_client(Priority::Interactive),
            background: of_client(Priority::Batch),
            documents: documents.clone(),
            clock: clock.clone(),
            describe,
            wake: Arc::default(),
            failures: Mutex::default(),
            changes: watch::Sender::new(0),
            ending: AtomicBool::new(false),
        });
        shared.start_embedding();
        if shared.path.exists() {
            // Vectors that are missing since the last process ended.
            shared.wake.notify_one();
        }
        Self(shared)
    }

    /// Returns the number of changes, and reports further ones.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Stops the computation of vectors, erases deleted documents, also if the last attempt failed, and closes the database. Further
    /// requests fail. Blocks.
    pub fn close(&self) {
        self.0.ending.store(true, Ordering::Relaxed);
        self.0.wake.notify_one();
        let store = self.0.store.lock().take();
        if let Some(store) = &store {
            self.0.request_upkeep(store);
        }
        self.0.upkeep.finish();
    }
}

impl Shared {
    /// Returns the database, and opens it at the first call. Repairs damage that an earlier operation found. Blocks.
    pub(super) fn store(&self) -> Result<Arc<CollectionStore>, Error> {
        let mut store = self.store.lock();
        if self.is_ending() {
            return Err(Error::ShuttingDown);
        }
        if let Some(store) = &*store {
            if let Some(repair) = store.repair_if_damaged(self.now_ms())? {
                self.report(&repair);
                // The damaged file may have deleted documents.
                self.request_upkeep(store);
            }
            return Ok(Arc::clone(store));
        }
        let opened = Arc::new(CollectionStore::open(&self.path, self.now_ms())?);
        if let Some(repair) = opened.last_repair() {
            self.report(&repair);
        }
        *store = Some(Arc::clone(&opened));
        // The last process may have ended between a deletion and its erasure.
        self.request_upkeep(&opened);
        Ok(opened)
    }

    /// Logs a repair. Wakes the task that computes vectors, because a repair removes them.
    fn report(&self, repair: &Repair) {
        tracing::error!("{repair}");
        self.changed();
    }

    /// Requests the erasure of deleted documents, and a backup if it is due. A failed erasure is repeated after a while and at
    /// shutdown.
    fn request_upkeep(&self, store: &Arc<CollectionStore>) {
        let (clock, store) = (self.clock.clone(), Arc::clone(store));
        self.upkeep.request(move || {
            // A repeated run may be much later than its request.
            let now_ms = Timestamp(clock.now()).unix_ms();
            let erased = store.erase_deleted(now_ms);
            if let Err(error) = &erased {
                tracing::warn!(%error, "files may still contain deleted documents; Cairn will retry");
            }
            if let Err(error) = store.back_up_if_due(now_ms) {
                tracing::warn!(%error, "cannot back up the collections");
            }
            erased.is_ok()
        });
    }

    /// Requests upkeep after documents were added or deleted.
    pub(super) fn request_upkeep_of_open(&self) {
        if let Some(store) = self.store.lock().clone() {
            self.request_upkeep(&store);
        }
    }

    /// Runs work on the database on a thread for blocking work.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self, &CollectionStore) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(self);
        let work = move || shared.store().and_then(|store| work(&shared, &store));
        tokio::task::spawn_blocking(work).await.unwrap_or(Err(Panicked.into()))
    }

    /// Finds the embedding model of a collection; `None` if it is not installed.
    pub(super) fn find_model(&self, name: &str) -> Result<Option<Model>, Error> {
        match self.library.find(name) {
            Ok(model) => Ok(Some(model)),
            Err(library::Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reports a change, and wakes the task that computes vectors.
    pub(super) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
        self.wake.notify_one();
    }

    /// Reports progress of the task that computes vectors.
    pub(super) fn progressed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    pub(super) fn now_ms(&self) -> i64 {
        Timestamp(self.clock.now()).unix_ms()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The task ends.
        self.wake.notify_one();
    }
}

/// Returns the digest of a model: vectors are valid for one.
pub(super) fn digest_of(model: &Model) -> String {
    model.weights.map_or_else(|| model.key.clone(), hex::encode)
}
