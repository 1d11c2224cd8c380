//! The engine: loads models on demand, keeps them while they are wanted, and hands out leases.
//!
//! One model loads at a time while loaded ones keep answering. A model without leases stays for its keep-alive; a new one
//! that finds no room takes the place of the idle one that would go first anyway.

mod lease;
mod room;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use cairn_gguf::DType;
use cairn_kernels::Variant;
use cairn_kv::Budget;
use cairn_models::ModelFile;
use cairn_tensor::cpu::{VariantError, variants};
use cairn_tensor::{Team, UnevenHead};
use cairn_tier::Owner;
use tokio::sync::Notify;

pub use self::lease::Lease;
use self::lease::Timer;
use crate::config::{EngineConfig, LoadOptions, ModelId, Source};
use crate::error::LoadError;
use crate::keep_alive::KeepAlive;
use crate::loaded::{Device, LoadedModel, Loading};
use crate::random::Random;
use crate::scheduler::HAND_OVER;
use crate::usage::{Counters, Usage};

/// Tokens of context for requests that ask for none.
const DEFAULT_CONTEXT_TOKENS: u32 = 4096;

/// Why a lock is never poisoned.
const UNHARMED: &str = "no code panics while it holds the lock";

/// A model as lists show it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its identity.
    pub id: ModelId,
    /// Bytes of weights.
    pub weights_bytes: u64,
    /// Context of the latest request.
    pub context_tokens: u32,
    /// Time until it is unloaded; nothing if never.
    pub expires_in: Option<Duration>,
    /// The kernel variant that computes it.
    pub variant: &'static str,
    /// The type of keys and values in its KV cache.
    pub kv_type: DType,
    /// Why they do not have the type that was asked for, if so.
    pub kv_refused: Option<UnevenHead>,
    /// Answers under way.
    pub leases: usize,
}

/// The engine. Clones are handles of the same one.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    config: EngineConfig,
    variant: &'static Variant,
    device: Device,
    budget: Arc<Budget>,
    entries: Mutex<HashMap<ModelId, Entry>>,
    /// Whether the latest load of each model still runs: after its entry has gone, it hands over what it has computed.
    latest: Mutex<HashMap<ModelId, Arc<AtomicBool>>>,
    /// What was asked of each model, loaded or not.
    usage: Mutex<BTreeMap<ModelId, Arc<Counters>>>,
    /// By size. A team lives as long as a model uses it.
    teams: Mutex<HashMap<usize, Weak<Team>>>,
    /// Seeds the models' own sources of seeds.
    seeds: Mutex<Random>,
    /// Held while a model loads.
    loading: tokio::sync::Mutex<()>,
    /// Requests that wait for a load.
    waiting: AtomicUsize,
    /// Wakes loads that wait for a model to become idle.
    idle: Notify,
    closing: Arc<AtomicBool>,
    runtime: tokio::runtime::Handle,
}

struct Entry {
    model: Arc<LoadedModel>,
    leases: usize,
    keep_alive: KeepAlive,
    context_tokens: u32,
    /// When it goes, while it is idle.
    expires: Option<Instant>,
    /// What unloads it then.
    timer: Option<Timer>,
    /// Whether another model waits for its place: it ends its answers and takes no more.
    leaving: bool,
}

impl Engine {
    /// Starts an engine; nothing is loaded yet. Must be called inside a tokio runtime, which runs its timers. Fails when
    /// the kernel variant that is asked for does not run here.
    pub fn start(config: EngineConfig) -> Result<Self, VariantError> {
        Self::start_on(config, Arc::new(|cpu| Box::new(cpu)))
    }

    /// As [`Engine::start`], with models that another device computes.
    pub fn start_on(config: EngineConfig, device: Device) -> Result<Self, VariantError> {
        let config = EngineConfig { parallel: config.parallel.max(1), max_loaded: config.max_loaded.max(1), ..config };
        let features = &config.machine.cpu.features;
        let usable = variants(features, config.kernel.as_deref())?;
        let variant = usable[0];
        for better in cairn_kernels::all().iter().take_while(|other| other.name != variant.name) {
            let reason = if config.kernel.is_some() { "another was asked for" } else { "the processor lacks it" };
            tracing::info!(variant = better.name, reason, "kernel variant refused");
        }
        tracing::info!(variant = variant.name, cores = config.machine.cpu.usable_cores.len(), "kernel variant chosen");
        let memory = &config.machine.memory;
        let quarter = memory.limit_bytes.unwrap_or(u64::MAX).min(memory.total_bytes) / 4;
        let budget = Arc::new(Budget::new(config.kv_budget_bytes.unwrap_or(quarter)));
        Ok(Self(Arc::new(Inner {
            seeds: Mutex::new(Random::new(config.seed)),
            config,
            variant,
            device,
            budget,
            entries: Mutex::default(),
            latest: Mutex::default(),
            usage: Mutex::default(),
            teams: Mutex::default(),
            loading: tokio::sync::Mutex::new(()),
            waiting: AtomicUsize::new(0),
            idle: Notify::new(),
            closing: Arc::new(AtomicBool::new(false)),
            runtime: tokio::runtime::Handle::current(),
        })))
    }

    /// Makes sure that a model is loaded, and keeps it so until the lease is dropped. Waits for its turn when another model
    /// loads, or has to end its answers first.
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
        let waiting = Waiting::begin(inner)?;
        let _loading = inner.loading.lock().await;
        drop(waiting);
        if let Some(lease) = self.lease(&id, &options, keep_alive)? {
            return Ok(lease);
        }
        let file = {
            let source = source.clone();
            let open = move || match source {
                Source::File(path) => Ok(ModelFile::open(&path)?),
                Source::Builtin { name, bytes } => Ok(ModelFile::builtin(name, bytes)?),
            };
            blocking::<Result<_, LoadError>>(open).await??
        };
        self.make_room(&id, &file, &options).await?;
        let loading = Loading {
            variant: inner.variant,
            device: Arc::clone(&inner.device),
            team: self.team(self.threads(&options)).map_err(LoadError::Thread)?,
            budget: Arc::clone(&inner.budget),
            parallel: inner.config.parallel,
            context_tokens: options.context_tokens.unwrap_or(DEFAULT_CONTEXT_TOKENS),
            kv_type: self.kv_type(&options),
            seeds: Random::new(inner.seeds.lock().expect("no code panics while it holds the seeds").next()),
            closing: Arc::clone(&inner.closing),
            kept: inner.config.kept.clone().zip(options.weights),
            counters: Arc::clone(inner.usage.lock().expect(UNHARMED).entry(id.clone()).or_default()),
        };
        self.await_hand_over(&id).await;
        let model = blocking(move || LoadedModel::load(file, loading)).await??;
        inner.latest.lock().expect(UNHARMED).insert(id.clone(), model.running());
        tracing::info!(%id, load_ms = model.load_ns / 1_000_000, variant = model.caps.variant, "model loaded");
        let load_ns = model.load_ns;
        let entry = Entry {
            model: Arc::new(model),
            leases: 0,
            keep_alive: inner.config.keep_alive,
            context_tokens: DEFAULT_CONTEXT_TOKENS,
            expires: None,
            timer: None,
            leaving: false,
        };
        inner.entries().insert(id.clone(), entry);
        let mut lease = self.lease(&id, &options, keep_alive)?.ok_or(LoadError::Closing)?;
        lease.load_ns = load_ns;
        Ok(lease)
    }

    /// Waits until a model that was unloaded a moment ago has handed over what it had computed, so that its next load finds that.
    async fn await_hand_over(&self, id: &str) {
        let latest = self.0.latest.lock().expect(UNHARMED).remove(id);
        let Some(running) = latest else { return };
        let until = Instant::now() + HAND_OVER;
        while running.load(Ordering::Acquire) && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The models that are loaded.
    pub(crate) fn models(&self) -> Vec<Arc<LoadedModel>> {
        self.0.entries().values().map(|entry| Arc::clone(&entry.model)).collect()
    }

    /// Whether those still run that were unloaded.
    pub(crate) fn handing_over(&self) -> Vec<Arc<AtomicBool>> {
        let entries = self.0.entries();
        let latest = self.0.latest.lock().expect("no code panics while it holds the lock");
        latest.iter().filter(|(id, _)| !entries.contains_key(*id)).map(|(_, running)| Arc::clone(running)).collect()
    }

    /// Says whether the model file at `path` could be loaded: its head, its vocabulary, and that its tensors are those of
    /// its family. Nothing of it stays in memory, and no other model gives way.
    ///
    /// # Errors
    /// What loading it would fail with, but for a lack of memory.
    pub fn check(&self, path: &Path) -> Result<(), LoadError> {
        let file = ModelFile::open(path)?;
        crate::loaded::check(&file, self.0.variant, self.team(1).map_err(LoadError::Thread)?)
    }

    /// Has what is kept for an owner, a chat that somebody opens, brought up from disk to RAM, as far as there is room. Returns how many
    /// contexts that is.
    pub fn prefetch(&self, owner: &Owner) -> usize {
        self.0.config.kept.as_ref().map_or(0, |kept| kept.tiers.prefetch_owner(owner))
    }

    /// What was asked since the start of each model that was loaded then.
    pub fn usage(&self) -> Vec<(ModelId, Usage)> {
        let usage = self.0.usage.lock().expect(UNHARMED);
        usage.iter().map(|(id, counters)| (id.clone(), counters.usage())).collect()
    }

    /// The name of the kernel variant that computes.
    #[must_use]
    pub fn variant(&self) -> &'static str {
        self.0.variant.name
    }

    /// The loaded models, the one that stays longest first.
    pub fn loaded(&self) -> Vec<Loaded> {
        let now = Instant::now();
        let mut loaded: Vec<_> = self
            .0
            .entries()
            .iter()
            .filter(|(_, entry)| entry.model.alive())
            .map(|(id, entry)| Loaded {
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

    /// Unloads a model as soon as its answers have ended. Returns whether it was loaded.
    pub fn unload(&self, id: &str) -> bool {
        let mut entries = self.0.entries();
        let Some(entry) = entries.get_mut(id) else { return false };
        entry.keep_alive = KeepAlive::For(Duration::ZERO);
        if entry.leases == 0 {
            entries.remove(id);
            self.0.idle.notify_waiters();
        }
        true
    }

    /// Ends all answers, unloads everything and takes no more requests.
    pub fn shutdown(&self) {
        self.0.closing.store(true, Ordering::Relaxed);
        self.0.entries().clear();
        self.0.idle.notify_waiters();
    }

    /// A lease of a model that is loaded as the options ask.
    fn lease(
        &self,
        id: &str,
        options: &LoadOptions,
        keep_alive: Option<KeepAlive>,
    ) -> Result<Option<Lease>, LoadError> {
        if self.0.closing.load(Ordering::Relaxed) {
            return Err(LoadError::Closing);
        }
        let mut entries = self.0.entries();
        let Some(entry) = entries.get_mut(id) else { return Ok(None) };
        if !entry.model.alive() {
            entries.remove(id);
            return Ok(None);
        }
        let other_threads = options.threads.is_some() && self.threads(options) != entry.model.threads;
        let asked = options.context_tokens.unwrap_or(DEFAULT_CONTEXT_TOKENS);
        let other_length = entry.model.hparams.is_long(asked as usize) != entry.model.long;
        let other_type = self.kv_type(options) != entry.model.kv_asked;
        if entry.leaving || other_threads || other_length || other_type {
            return Ok(None);
        }
        if entry.model.queued.load(Ordering::Relaxed) >= self.0.config.max_queue {
            return Err(LoadError::Busy);
        }
        let trained = entry.model.hparams.context_length as u32;
        entry.context_tokens = asked.min(trained).max(4);
        if let Some(keep_alive) = keep_alive {
            entry.keep_alive = keep_alive;
        }
        entry.expires = None;
        entry.timer = None;
        entry.leases += 1;
        Ok(Some(Lease {
            engine: self.clone(),
            id: id.to_owned(),
            model: Arc::clone(&entry.model),
            context_tokens: entry.context_tokens,
            load_ns: 0,
        }))
    }
}

impl Inner {
    fn entries(&self) -> MutexGuard<'_, HashMap<ModelId, Entry>> {
        self.entries.lock().expect("no code panics while it holds the entries")
    }
}

/// A place among the requests that wait for a load.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(inner: &'a Inner) -> Result<Self, LoadError> {
        let place = Self(&inner.waiting);
        if inner.waiting.fetch_add(1, Ordering::Relaxed) >= inner.config.max_queue {
            return Err(LoadError::Busy);
        }
        Ok(place)
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
