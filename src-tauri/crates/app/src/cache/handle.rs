//! The handle of the cache. Clones share everything.

use std::sync::Arc;

use cairn_runtime::{CacheTiers, Engine};
use cairn_tier::Fingerprint;
use parking_lot::Mutex;

use super::hours::CountsByHour;
use super::metadata::CacheMetadata;
use super::tiers::{self, KeyLocation, Opened};
use crate::clock::Clock;
use crate::library::ModelLibrary;
use crate::settings::Settings;

/// The tiers of cached rows, and the pages of loaded models.
#[derive(Clone)]
pub struct KvCache {
    pub(super) kept: Option<Arc<CacheTiers>>,
    /// Place of the key that encrypts files of the tiers.
    key: Option<KeyLocation>,
    pub(super) metadata: Arc<CacheMetadata>,
    pub(super) hours: Arc<Mutex<CountsByHour>>,
    pub(super) engine: Engine,
    pub(super) library: ModelLibrary,
    pub(super) settings: Arc<Settings>,
    pub(super) clock: Clock,
    /// Bytes of memory that this process may use.
    pub(super) memory_bytes: u64,
}

impl KvCache {
    pub(crate) fn new(
        opened: Option<Opened>,
        engine: &Engine,
        library: &ModelLibrary,
        settings: &Arc<Settings>,
        clock: &Clock,
        memory_bytes: u64,
    ) -> Self {
        let (kept, key) = opened.map(|opened| (Arc::new(opened.kept), opened.key)).unzip();
        Self {
            kept,
            key: key.flatten(),
            metadata: Arc::new(CacheMetadata::open(settings)),
            hours: Arc::default(),
            engine: engine.clone(),
            library: library.clone(),
            settings: Arc::clone(settings),
            clock: clock.clone(),
            memory_bytes,
        }
    }

    /// Place of the key that encrypts files of the tiers; `None` if no files are encrypted.
    #[must_use]
    pub fn tier_key(&self) -> Option<KeyLocation> {
        self.key
    }

    /// Stores the name of the model that a fingerprint belongs to.
    pub(crate) fn learn(&self, fingerprint: &Fingerprint, model: &str) {
        self.metadata.learn(fingerprint, model);
    }

    /// Flushes chunks of unloaded models to the tiers, for at most 2 s. The engine must have shut down before.
    pub fn close(&self) {
        if let Some(kept) = &self.kept {
            tiers::close(kept);
        }
    }
}
