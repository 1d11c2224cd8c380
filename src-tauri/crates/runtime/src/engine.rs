//! The engine: loads models on demand, unloads idle ones, and hands out leases.
//!
//! One model loads at a time while loaded ones keep answering. A model without leases stays for its keep-alive time. A new
//! model without room replaces the idle one that would expire first.

mod cache;
mod lease;
mod rates;
mod room;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use cairn_gguf::{DType, Gguf};
use cairn_kernels::Variant;
use cairn_kv::Budget;
use cairn_models::ModelFile;
use cairn_tensor::cpu::{VariantError, variants};
use cairn_tensor::{Team, UnevenHead};
use cairn_tier::Owner;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use self::cache::PrefixLookup;
pub use self::lease::Lease;
use self::lease::Timer;
pub use self::rates::{RatesError, TypeRates};
use crate::adapters;
use crate::client::Client;
use crate::command::{Command, CommandSender};
use crate::config::{EngineConfig, LoadOptions, ModelId, Projector, Source};
use crate::error::LoadError;
use crate::keep_alive::KeepAlive;
use crate::loaded::{Device, LoadedModel, Loading, TowerFile};
use crate::metrics::{Counters, ModelMetrics};
use crate::model_use::ModelUses;
use crate::random::Random;
use crate::scheduler::FLUSH_TIMEOUT;
use crate::tower::tower_bytes;

/// Context size of requests that do not set one.
const DEFAULT_CONTEXT_TOKENS: u32 = 4096;

/// Returns the names of all kernel variants of this build, best first.
pub fn kernel_names() -> impl Iterator<Item = &'static str> {
    cairn_kernels::all().iter().map(|variant| variant.name)
}

/// A loaded model in a list.
#[derive(Clone, Debug)]
pub struct ModelStatus {
    /// The model's id.
    pub id: ModelId,
    /// Size of the weights.
    pub weights_bytes: u64,
    /// Context size of the latest request.
    pub context_tokens: u32,
    /// Time until it is unloaded; none if never.
    pub expires_in: Option<Duration>,
    /// The kernel variant that computes it.
    pub variant: &'static str,
    /// The type of keys and values in its KV cache.
    pub kv_type: DType,
    /// Why they do not have the requested type, if so.
    pub kv_refused: Option<UnevenHead>,
    /// Leases, one for each request.
    pub leases: usize,
}

/// Handle of an engine. Clones refer to the same engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    config: EngineConfig,
    variant: &'static Variant,
    device: Device,
    budget: Arc<Budget>,
    entries: Mutex<HashMap<ModelId, Entry>>,
    /// Scheduler threads that run, the latest last. A thread outlives its entry: it completes its generations and flushes its
    /// cache.
    schedulers: Mutex<Vec<SchedulerHandle>>,
    /// Metrics of each model, loaded or not.
    metrics: Mutex<BTreeMap<ModelId, Arc<Counters>>>,
    /// Compute teams by size. A team lives as long as a model uses it.
    teams: Mutex<HashMap<usize, Weak<Team>>>,
    /// Seeds of the models' own seed sources.
    seeds: Mutex<Random>,
    /// Held while a model loads.
    loading: tokio::sync::Mutex<()>,
    /// Held while products are measured.
    measuring: Mutex<()>,
    /// Requests that wait for a load.
    waiting: AtomicUsize,
    /// Wakes loads that wait for a model to become idle.
    idle: Arc<Notify>,
    closing: AtomicBool,
    runtime: tokio::runtime::Handle,
}

struct Entry {
    model: Arc<LoadedModel>,
    leases: usize,
    keep_alive: KeepAlive,
    /// The keep-alive time of the latest request that set one.
    requested_keep_alive: Option<KeepAlive>,
    context_tokens: u32,
    /// When it is unloaded, while it is idle.
    expires: Option<Instant>,
    /// The task that unloads it then.
    timer: Option<Timer>,
    /// Whether it is drained to make room for another model: it gets no more requests.
    is_draining: bool,
}

impl Entry {
    /// Whether a lease or a generation needs the model.
    fn is_busy(&self) -> bool {
        self.model.uses.has_any()
    }
}

/// A scheduler thread that runs.
struct SchedulerHandle {
    id: ModelId,
    commands: CommandSender,
    running: Arc<AtomicBool>,
}

impl Engine {
    /// Starts an engine without models. Must be called inside a tokio runtime, which runs its timers.
    ///
    /// # Errors
    /// When the configured kernel variant does not run on this machine.
    pub fn start(config: EngineConfig) -> Result<Self, VariantError> {
        Self::start_on(config, Arc::new(|cpu| Box::new(cpu)))
    }

    /// Like [`Engine::start`], with models on another device.
    ///
    /// # Errors
    /// When the configured kernel variant does not run on this machine.
    pub fn start_on(config: EngineConfig, device: Device) -> Result<Self, VariantError> {
        let config = EngineConfig { parallel: config.parallel.max(1), max_loaded: config.max_loaded.max(1), ..config };
        let features = &config.machine.cpu.features;
        let usable = variants(features, config.kernel.as_deref())?;
        let variant = usable[0];
        for better in cairn_kernels::all().iter().take_while(|other| other.name != variant.name) {
            let reason =
                if config.kernel.is_some() { "another is configured" } else { "not supported by the processor" };
            tracing::info!(variant = better.name, reason, "kernel variant skipped");
        }
        tracing::info!(variant = variant.name, cores = config.machine.cpu.usable_cores.len(), "kernel variant chosen");
        let quarter = config.machine.memory.usable_bytes() / 4;
        let budget = Arc::new(Budget::new(config.kv_budget_bytes.unwrap_or(quarter)));
        Ok(Self(Arc::new(Inner {
            seeds: Mutex::new(Random::new(config.seed)),
            config,
            variant,
            device,
            budget,
            entries: Mutex::default(),
            schedulers: Mutex::default(),
            metrics: Mutex::default(),
            teams: Mutex::default(),
            loading: tokio::sync::Mutex::new(()),
            measuring: Mutex::default(),
            waiting: AtomicUsize::new(0),
            idle: Arc::default(),
            closing: AtomicBool::new(false),
            runtime: tokio::runtime::Handle::current(),
        })))
    }

    /// Loads a model, unless it is loaded, and keeps it loaded until the lease is dropped. Waits while another model loads or
    /// drains, within [`LoadTimeouts`](crate::LoadTimeouts). Without `keep_alive`, the time of an earlier request stays.
    ///
    /// # Errors
    /// When the model cannot be loaded, too many requests wait, the loads before it take too long, or the engine shuts down.
    pub async fn acquire(
        &self,
        id: ModelId,
        source: Source,
        options: LoadOptions,
        keep_alive: Option<KeepAlive>,
    ) -> Result<Lease, LoadError> {
        let inner = &self.0;
        if let Some(lease) = self.lease(&id, &options, keep_alive)? {
            return Ok(lease);
        }
        let _loading = match inner.loading.try_lock() {
            // A request that loads its model does not wait in a queue, which may have no places.
            Ok(loading) => loading,
            Err(_) => {
                let _waiting = Waiting::begin(inner)?;
                // Each load is bounded, but many of them may be queued.
                let queue = inner.config.load_timeouts.queue;
                let loading = tokio::time::timeout(queue, inner.loading.lock()).await;
                loading.map_err(|_| LoadError::Timeout(queue))?
            }
        };
        if let Some(lease) = self.lease(&id, &options, keep_alive)? {
            return Ok(lease);
        }
        let (file, adapters, projector) = {
            let (source, adapters, projector) = (source.clone(), options.adapters.clone(), options.projector.clone());
            let open = move || {
                let tower =
                    |Projector { source, weights }| Ok(TowerFile { file: Arc::new(open_file(source)?), weights });
                Ok((open_file(source)?, adapters::open(&adapters)?, projector.map(tower)))
            };
            blocking::<Result<_, LoadError>>(open).await??
        };
        let tower = projector.as_ref().and_then(|tower| tower.as_ref().ok());
        let tower_bytes = tower_bytes(&file, tower.map(|tower| &*tower.file));
        self.make_room(&id, &file, tower_bytes, &options).await?;
        let loading = Loading {
            variant: inner.variant,
            device: Arc::clone(&inner.device),
            team: self.team(self.threads(&options)).map_err(LoadError::Thread)?,
            budget: Arc::clone(&inner.budget),
            parallel: inner.config.parallel,
            max_queue: inner.config.max_queue,
            context_tokens: options.context_tokens.unwrap_or(DEFAULT_CONTEXT_TOKENS),
            kv_type: self.kv_type(&options),
            seeds: Random::new(inner.seeds.lock().next()),
            uses: ModelUses::new(Arc::clone(&inner.idle)),
            tiers: inner.config.cache_tiers.clone().zip(options.weights),
            adapter_digests: options.adapters.iter().map(|adapter| adapter.digest).collect(),
            counters: Arc::clone(inner.metrics.lock().entry(id.clone()).or_default()),
            projector,
        };
        self.wait_for_flush(&id).await;
        let model = blocking(move || LoadedModel::load(file, adapters, loading)).await??;
        {
            let mut schedulers = inner.schedulers.lock();
            schedulers.retain(|scheduler| scheduler.running.load(Ordering::Acquire));
            let (commands, running) = (model.commands.clone(), model.running());
            schedulers.push(SchedulerHandle { id: id.clone(), commands, running });
        }
        tracing::info!(%id, load_ms = model.load_ns / 1_000_000, variant = model.caps.variant, "model loaded");
        let load_ns = model.load_ns;
        let entry = Entry {
            model: Arc::new(model),
            leases: 0,
            keep_alive: inner.config.keep_alive,
            requested_keep_alive: None,
            context_tokens: DEFAULT_CONTEXT_TOKENS,
            expires: None,
            timer: None,
            is_draining: false,
        };
        {
            let mut entries = inner.entries.lock();
            if inner.closing.load(Ordering::Relaxed) {
                return Err(LoadError::Closing);
            }
            entries.insert(id.clone(), entry);
        }
        let mut lease = self.lease(&id, &options, keep_alive)?.ok_or(LoadError::Closing)?;
        lease.load_ns = load_ns;
        Ok(lease)
    }

    /// Waits until a model that was just unloaded has flushed its cache, so that its next load can restore those rows.
    async fn wait_for_flush(&self, id: &str) {
        let running = {
            let schedulers = self.0.schedulers.lock();
            schedulers.iter().rfind(|scheduler| scheduler.id == id).map(|scheduler| Arc::clone(&scheduler.running))
        };
        let Some(running) = running else { return };
        let until = Instant::now() + FLUSH_TIMEOUT;
        while running.load(Ordering::Acquire) && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The loaded models.
    fn models(&self) -> Vec<Arc<LoadedModel>> {
        self.0.entries.lock().values().map(|entry| Arc::clone(&entry.model)).collect()
    }

    /// The running flags of models that were unloaded and still flush their caches.
    fn flushing(&self) -> Vec<Arc<AtomicBool>> {
        let entries = self.0.entries.lock();
        let schedulers = self.0.schedulers.lock();
        let unloaded = schedulers.iter().filter(|scheduler| !entries.contains_key(&scheduler.id));
        unloaded.map(|scheduler| Arc::clone(&scheduler.running)).collect()
    }

    /// Checks that the model file at `path` can be loaded: its header, its vocabulary, and the tensors of its family. Nothing
    /// stays in memory, and no other model is unloaded.
    ///
    /// # Errors
    /// Those of loading it, except for lack of memory.
    pub fn check(&self, path: &Path) -> Result<(), LoadError> {
        let file = ModelFile::open(path)?;
        crate::loaded::check(&file, self.0.variant, self.team(1).map_err(LoadError::Thread)?)
    }

    /// Checks that the adapter in a file fits a model file, by the shapes of their tensors.
    ///
    /// # Errors
    /// Those of loading the model with the adapter that shapes show.
    pub fn check_adapter(&self, model: &Path, adapter: &Path) -> Result<(), LoadError> {
        crate::adapters::check(model, adapter)
    }

    /// Checks by the head of a model file whether this engine can run the model. Returns the memory for weights, activations
    /// and a KV cache of the default context size.
    ///
    /// # Errors
    /// Those of loading it that metadata and tensor table show, except for lack of memory. An unknown architecture comes
    /// before all others.
    pub fn check_head(&self, gguf: Gguf) -> Result<u64, LoadError> {
        crate::loaded::check_head(gguf, DEFAULT_CONTEXT_TOKENS, self.0.config.kv_type)
    }

    /// Memory of this machine that models can use: all of it, or the limit of the process.
    pub fn memory_bytes(&self) -> u64 {
        self.0.config.machine.memory.usable_bytes()
    }

    /// Starts to prefetch an owner's chunks from disk to RAM while there is room. Returns the number of contexts.
    pub fn prefetch(&self, owner: &Owner) -> usize {
        self.0.config.cache_tiers.as_ref().map_or(0, |cache| cache.tiers.prefetch_owner(owner))
    }

    /// Metrics of each model that was loaded since the start.
    pub fn metrics(&self) -> Vec<(ModelId, ModelMetrics)> {
        self.0.metrics.lock().iter().map(|(id, counters)| (id.clone(), counters.metrics())).collect()
    }

    /// The name of the kernel variant in use.
    #[must_use]
    pub fn variant(&self) -> &'static str {
        self.0.variant.name
    }

    /// The loaded models, in descending order of the time until they are unloaded.
    pub fn loaded(&self) -> Vec<ModelStatus> {
        let now = Instant::now();
        let mut loaded: Vec<_> = self
            .0
            .entries
            .lock()
            .iter()
            .filter(|(_, entry)| entry.model.alive())
            .map(|(id, entry)| ModelStatus {
                id: id.clone(),
                weights_bytes: entry.model.weights_bytes,
                context_tokens: entry.context_tokens,
                expires_in: match (entry.expires, entry.keep_alive) {
                    (Some(at), _) => Some(at.saturating_duration_since(now)),
                    (None, KeepAlive::For(time)) => Some(time),
                    (None, KeepAlive::Forever) => None,
                },
                variant: entry.model.caps.variant,
                kv_type: entry.model.caps.kv_type,
                kv_refused: entry.model.kv_refused,
                leases: entry.leases,
            })
            .collect();
        loaded.sort_by_key(|model| std::cmp::Reverse(model.expires_in.unwrap_or(Duration::MAX)));
        loaded
    }

    /// Unloads a model as soon as it is idle. Returns whether it was loaded.
    pub fn unload(&self, id: &str) -> bool {
        let mut entries = self.0.entries.lock();
        let Some(entry) = entries.get_mut(id) else { return false };
        entry.keep_alive = KeepAlive::For(Duration::ZERO);
        if entry.leases == 0 {
            entries.remove(id);
            self.0.idle.notify_waiters();
        }
        true
    }

    /// Cancels all generations, unloads all models and rejects new requests.
    pub fn shutdown(&self) {
        self.0.closing.store(true, Ordering::Relaxed);
        for scheduler in self.0.schedulers.lock().iter() {
            scheduler.commands.send(Command::Shutdown);
        }
        self.0.entries.lock().clear();
        self.0.idle.notify_waiters();
    }

    /// A lease of a model, if it is loaded with these options.
    fn lease(
        &self,
        id: &str,
        options: &LoadOptions,
        keep_alive: Option<KeepAlive>,
    ) -> Result<Option<Lease>, LoadError> {
        if self.0.closing.load(Ordering::Relaxed) {
            return Err(LoadError::Closing);
        }
        let mut entries = self.0.entries.lock();
        let Some(entry) = entries.get_mut(id) else { return Ok(None) };
        if !entry.model.alive() {
            entries.remove(id);
            return Ok(None);
        }
        let other_threads = options.threads.is_some() && self.threads(options) != entry.model.threads;
        let requested = options.context_tokens.unwrap_or(DEFAULT_CONTEXT_TOKENS);
        let other_length = entry.model.hparams.is_long(requested as usize) != entry.model.long;
        let other_type = self.kv_type(options) != entry.model.requested_kv_type;
        let trained = entry.model.hparams.context_length as u32;
        let too_long = entry.model.max_text_tokens.is_some_and(|max| requested.min(trained) as usize > max);
        if entry.is_draining || other_threads || other_length || other_type || too_long {
            return Ok(None);
        }
        let place = entry.model.queue.enter().ok_or(LoadError::Busy)?;
        entry.context_tokens = requested.max(4).min(trained);
        entry.requested_keep_alive = keep_alive.or(entry.requested_keep_alive);
        let default = options.default_keep_alive.unwrap_or(self.0.config.keep_alive);
        entry.keep_alive = entry.requested_keep_alive.unwrap_or(default);
        entry.expires = None;
        entry.timer = None;
        entry.leases += 1;
        Ok(Some(Lease {
            engine: self.clone(),
            id: id.to_owned(),
            client: Client::default(),
            first: Mutex::new(Some((entry.model.uses.begin(), place))),
            model: Arc::clone(&entry.model),
            context_tokens: entry.context_tokens,
            load_ns: 0,
        }))
    }
}

fn open_file(source: Source) -> Result<ModelFile, LoadError> {
    match source {
        Source::File(path) => Ok(ModelFile::open(&path)?),
        Source::Builtin { name, bytes } => Ok(ModelFile::builtin(name, bytes)?),
    }
}

/// A request in the queue for a load.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(inner: &'a Inner) -> Result<Self, LoadError> {
        let waiting = Self(&inner.waiting);
        if inner.waiting.fetch_add(1, Ordering::Relaxed) >= inner.config.max_queue {
            return Err(LoadError::Busy);
        }
        Ok(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, LoadError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| LoadError::Panicked)
}
