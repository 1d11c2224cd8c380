//! Composes the use cases of the daemon.

use std::sync::Arc;

use cairn_disk::SharedLock;
use cairn_hardware::Machine;
use cairn_runtime::{Engine, EngineConfig};
use cairn_store::GcReport;

use crate::cache::{self, CacheLimits, KvCache, LimitChange};
use crate::chats::{self, ChatSessions};
use crate::clock::Clock;
use crate::collections::{self, Collections};
use crate::documents::{Documents, Extractor};
use crate::error::Error;
use crate::inference::{self, Inference};
use crate::keys::ApiKeys;
use crate::library::{Deleted, ModelLibrary};
use crate::live_settings::LiveParts;
use crate::remotes::Remotes;
use crate::secret::random_hex;
use crate::settings::{LiveValues, Settings, SettingsStore};
use crate::speed::Speeds;
use crate::system::SystemInfo;
use crate::tools::Tools;
use crate::transfers::Transfers;

/// Length of the random id of this process.
const INSTANCE_BYTES: usize = 8;

/// Functions that describe errors as clients see them, for those that are stored.
#[derive(Debug, Clone, Copy)]
pub struct Describe {
    /// Errors of answers.
    pub chats: chats::DescribeError,
    /// Errors of documents and embedding models.
    pub collections: collections::DescribeError,
}

/// The daemon's use cases: a handle for each area, and the few use cases that need two areas. Clones share everything.
#[derive(Clone)]
pub struct App {
    engine: Engine,
    settings: SettingsStore,
    library: ModelLibrary,
    speeds: Speeds,
    transfers: Transfers,
    remotes: Remotes,
    tools: Tools,
    cache: KvCache,
    inference: Inference,
    chats: ChatSessions,
    documents: Documents,
    collections: Collections,
    system: SystemInfo,
    keys: ApiKeys,
    /// Announces to other daemons that this one uses the library.
    _presence: Option<Arc<SharedLock>>,
    clock: Clock,
}

impl App {
    /// Starts an engine without a loaded model, and the use cases over it. Must be called inside a tokio runtime.
    /// `seed` is the source of seeds for requests that set none. `describe` gives the errors of answers and documents the codes
    /// that clients use, so that they are stored with their codes. `extractor` reads documents.
    ///
    /// # Errors
    /// If the settings name kernels that this machine cannot run, or an unknown type of the KV cache, or the system gives no random
    /// numbers.
    pub fn start(
        settings: Settings,
        machine: Machine,
        clock: Clock,
        seed: u64,
        describe: Describe,
        extractor: Extractor,
    ) -> Result<Self, Error> {
        let settings = Arc::new(cache::CacheMetadata::open(&settings).apply_limits(settings));
        let memory_bytes = machine.memory.usable_bytes();
        let tiers = cache::open_tiers(&settings.tiers, &machine, &clock);
        let config = EngineConfig {
            machine: machine.clone(),
            kernel: settings.engine.kernel.clone(),
            kv_budget_bytes: settings.engine.kv_budget_bytes,
            kv_type: inference::kv_type(settings.engine.kv_type.as_deref()).map_err(Error::Start)?,
            parallel: settings.engine.parallel,
            max_loaded: settings.engine.max_loaded,
            max_queue: settings.engine.max_queue,
            keep_alive: inference::engine_keep_alive(settings.engine.keep_alive),
            load_timeouts: cairn_runtime::LoadTimeouts::default(),
            seed,
            cache_tiers: tiers.as_ref().map(|tiers| tiers.kept.clone()),
        };
        let engine = Engine::start(config).map_err(|error| Error::Start(error.to_string()))?;
        let live = Arc::new(LiveValues::of(&settings));
        let library = ModelLibrary::new(&settings, &clock, &engine);
        let speeds = Speeds::open(&engine, &library, &settings, &machine);
        speeds.record_at_intervals();
        let transfers = Transfers::new(&library, &settings, &clock, seed);
        let remotes = Remotes::open(&library, &transfers, &settings, random_hex::<INSTANCE_BYTES>()?);
        let tools = Tools::open(&transfers, &settings);
        let cache = KvCache::new(tiers, &engine, &library, &settings, &clock, memory_bytes);
        let inference = Inference::new(&engine, &library, &remotes, &cache, &settings, &live, &clock);
        let documents = Documents::new(extractor);
        let collections = Collections::new(&library, &inference, &documents, &settings, &clock, describe.collections);
        let chats = ChatSessions::new(&inference, &cache, &tools, &collections, &settings, &clock, describe.chats);
        let system = SystemInfo::new(machine, &engine, &library, &remotes, &cache, &settings, &clock);
        let keys = ApiKeys::open(&settings, &clock);
        keys.save_uses_at_intervals();
        let parts = LiveParts { cache: cache.clone(), transfers: transfers.clone(), system: system.clone() };
        let settings = SettingsStore::new(&settings, &live, Arc::new(parts));
        let in_use = transfers.clone();
        let presence = library.clear_up(move || in_use.digests_in_use()).map(Arc::new);
        transfers.restore();
        Ok(Self {
            engine,
            settings,
            library,
            speeds,
            transfers,
            remotes,
            tools,
            cache,
            inference,
            chats,
            documents,
            collections,
            system,
            keys,
            _presence: presence,
            clock,
        })
    }

    /// Starts with this machine and errors that have only a text.
    #[cfg(test)]
    pub(crate) fn for_test(settings: Settings, clock: Clock) -> Self {
        Self::with_extractor(settings, clock, Extractor::of_cairn("cairn".into()))
    }

    /// Starts as [`App::for_test`] does, with another program that reads documents.
    #[cfg(test)]
    pub(crate) fn with_extractor(settings: Settings, clock: Clock, extractor: Extractor) -> Self {
        let describe = Describe {
            chats: |error| crate::values::ErrorBody::text(error.to_string()),
            collections: |error| crate::values::ErrorBody::text(error.to_string()),
        };
        Self::start(settings, Machine::probe(), clock, 1, describe, extractor).expect("the daemon starts")
    }

    /// Settings: what is in effect, and changes.
    #[must_use]
    pub fn settings(&self) -> &SettingsStore {
        &self.settings
    }

    /// Models on this machine.
    #[must_use]
    pub fn library(&self) -> &ModelLibrary {
        &self.library
    }

    /// Speeds of models and kernels on this machine.
    #[must_use]
    pub fn speeds(&self) -> &Speeds {
        &self.speeds
    }

    /// Transfers between this machine and others.
    #[must_use]
    pub fn transfers(&self) -> &Transfers {
        &self.transfers
    }

    /// Other servers with models that this daemon serves.
    #[must_use]
    pub fn remotes(&self) -> &Remotes {
        &self.remotes
    }

    /// Tools that models may call.
    #[must_use]
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// The cache of prefixes.
    #[must_use]
    pub fn cache(&self) -> &KvCache {
        &self.cache
    }

    /// Requests to models.
    #[must_use]
    pub fn inference(&self) -> &Inference {
        &self.inference
    }

    /// Stored chats and their answers in progress.
    #[must_use]
    pub fn chats(&self) -> &ChatSessions {
        &self.chats
    }

    /// The text of documents.
    #[must_use]
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// Collections of documents.
    #[must_use]
    pub fn collections(&self) -> &Collections {
        &self.collections
    }

    /// The machine, loaded models and metrics.
    #[must_use]
    pub fn system(&self) -> &SystemInfo {
        &self.system
    }

    /// API keys.
    #[must_use]
    pub fn keys(&self) -> &ApiKeys {
        &self.keys
    }

    /// The clock of all use cases.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Deletes a model from the library, and those of its files that neither another model nor a pull uses. Blocks.
    ///
    /// # Errors
    /// When there is no such model, when it is not in our own library, or when the disk refuses.
    pub fn delete(&self, name: &str) -> Result<Deleted, Error> {
        Ok(self.library.delete(name, &|| self.transfers.digests_in_use())?)
    }

    /// Removes files of our own library that nothing uses, and with `partials` partial downloads that no pull resumes.
    /// With
    /// `dry_run` it only reports them. Blocks.
    ///
    /// # Errors
    /// When a manifest cannot be read, so that the used files are unknown, or when the disk refuses.
    pub fn collect_garbage(&self, dry_run: bool, partials: bool) -> Result<GcReport, Error> {
        let mut collected = self.library.collect_garbage(dry_run, partials, &|| self.transfers.digests_in_use())?;
        if self.library.is_present() {
            match self.transfers.clear_leftovers(dry_run || !partials) {
                Ok(left) if partials => collected.removed.extend(left),
                Ok(left) => collected.kept.extend(left),
                Err(error) => tracing::warn!(%error, "partial downloads were not removed"),
            }
        }
        Ok(collected)
    }

    /// Changes limits of the cache in `config.toml`, all of them or none. Budgets of existing tiers apply at once; a
    /// folder and new tiers apply at the next start. Blocks.
    ///
    /// # Errors
    /// If a limit is invalid, is set in the environment, or cannot be written.
    pub fn set_cache_limits(&self, change: LimitChange) -> Result<CacheLimits, Error> {
        let changes = self.cache.setting_changes(change).map_err(cache::Error::from)?;
        self.settings.change(&changes)?;
        Ok(self.cache.limits())
    }

    /// Cancels all generations, unloads all models and rejects new requests. What chats have so far is stored first.
    pub fn shutdown(&self) {
        self.chats.interrupt_answers();
        self.speeds.record();
        self.engine.shutdown();
    }
}
