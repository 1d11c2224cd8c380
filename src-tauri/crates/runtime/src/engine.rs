//! The engine: loads models on demand, keeps them while they are wanted, and hands out leases.
//!
//! One model loads at a time while loaded ones keep answering. A model without leases stays for its keep-alive; a new one
//! that finds no room takes the place of the idle one that would go first anyway.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use cairn_hardware::Machine;
use cairn_kernels::Variant;
use cairn_kv::Budget;
use cairn_models::{Hparams, ModelFile};
use cairn_prompt::Template;
use cairn_tensor::Team;
use cairn_tensor::cpu::{VariantError, variants};
use cairn_tokenizer::Tokenizer;
use tokio::sync::{Notify, mpsc};

use crate::keep_alive::KeepAlive;
use crate::loaded::{LoadedModel, Loading, check_memory};
use crate::request::{Event, GenerateError, Request};
use crate::sequence::Job;

/// A model's identity: requests with the same one share a loaded model.
pub type ModelId = String;

/// Events that may wait for a slow listener before its answer pauses.
const EVENTS: usize = 32;

/// Where a model's bytes are.
#[derive(Clone, Debug)]
pub enum Source {
    /// A GGUF file.
    File(PathBuf),
    /// Part of this program.
    Builtin {
        /// What errors call it.
        name: &'static str,
        /// A whole GGUF file, aligned to 64 bytes.
        bytes: &'static [u8],
    },
}

/// What an engine is set up with.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// What this machine has.
    pub machine: Machine,
    /// Forces a kernel variant by name; otherwise the best usable one.
    pub kernel: Option<String>,
    /// Bytes that KV pages of all models may take; otherwise a quarter of the memory.
    pub kv_budget_bytes: Option<u64>,
    /// Requests that one model computes at once.
    pub parallel: usize,
    /// Models that may be loaded at once.
    pub max_loaded: usize,
    /// Requests that may wait for one model.
    pub max_queue: usize,
    /// For requests that name none.
    pub keep_alive: KeepAlive,
    /// Source of the seeds of requests that name none.
    pub seed: u64,
}

/// What a request asks of a load.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Tokens that prompt and answer may have together; at most what the model was trained for.
    pub context_tokens: Option<u32>,
    /// Compute threads, at most as many as the machine runs at once; otherwise one per physical core.
    pub threads: Option<usize>,
    /// Load even if memory looks too small.
    pub force: bool,
}

/// Tokens of context for requests that ask for none.
const DEFAULT_CONTEXT_TOKENS: u32 = 4096;

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be opened, or is no GGUF.
    #[error(transparent)]
    File(Box<cairn_models::OpenError>),
    /// The file is no model that we run.
    #[error(transparent)]
    Model(#[from] cairn_models::LoadError),
    /// Its vocabulary cannot be used.
    #[error("tokenizer: {0}")]
    Tokenizer(#[from] cairn_tokenizer::Error),
    /// The backend refused.
    #[error(transparent)]
    Backend(#[from] cairn_tensor::BackendError),
    /// It would not fit.
    #[error("the model needs {} of memory and {} are free; load it all the same with --force", gib(*.need_bytes), gib(*.have_bytes))]
    TooBig {
        /// Weights and working memory.
        need_bytes: u64,
        /// Memory that is available now.
        have_bytes: u64,
    },
    /// Too many requests wait.
    #[error("server busy, please try again.  maximum pending requests exceeded")]
    Busy,
    /// No thread could be started.
    #[error("the system refused a thread: {0}")]
    Thread(std::io::Error),
    /// The engine is shutting down.
    #[error("the server is shutting down")]
    Closing,
    /// The load itself broke off.
    #[error("loading the model failed unexpectedly; the log says more")]
    Panicked,
}

impl From<cairn_models::OpenError> for LoadError {
    fn from(error: cairn_models::OpenError) -> Self {
        Self::File(Box::new(error))
    }
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

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
    /// Answers under way.
    pub leases: usize,
}

/// The engine. Clones are handles of the same one.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    config: EngineConfig,
    variant: &'static Variant,
    budget: Arc<Budget>,
    entries: Mutex<HashMap<ModelId, Entry>>,
    teams: Mutex<HashMap<usize, Arc<Team>>>,
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
}

impl Engine {
    /// Starts an engine; nothing is loaded yet. Must be called inside a tokio runtime, which runs its timers. Fails when
    /// the kernel variant that is asked for does not run here.
    pub fn start(config: EngineConfig) -> Result<Self, VariantError> {
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
            config,
            variant,
            budget,
            entries: Mutex::default(),
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
        mut options: LoadOptions,
        keep_alive: Option<KeepAlive>,
    ) -> Result<Lease, LoadError> {
        let inner = &self.0;
        // More threads than the machine has only wait for each other, and many more leave none to the other programs.
        options.threads = options.threads.map(|threads| threads.clamp(1, inner.config.machine.cpu.logical.max(1)));
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
            team: self.team(options.threads).map_err(LoadError::Thread)?,
            budget: Arc::clone(&inner.budget),
            parallel: inner.config.parallel,
            seed: inner.config.seed ^ inner.entries().len() as u64,
            closing: Arc::clone(&inner.closing),
        };
        let model = blocking(move || LoadedModel::load(file, loading)).await??;
        tracing::info!(%id, load_ms = model.load_ns / 1_000_000, variant = model.caps.variant, "model loaded");
        let load_ns = model.load_ns;
        let entry = Entry {
            model: Arc::new(model),
            leases: 0,
            keep_alive: inner.config.keep_alive,
            context_tokens: DEFAULT_CONTEXT_TOKENS,
            expires: None,
        };
        inner.entries().insert(id.clone(), entry);
        let mut lease = self.lease(&id, &options, keep_alive)?.ok_or(LoadError::Closing)?;
        lease.load_ns = load_ns;
        Ok(lease)
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
        if options.threads.is_some_and(|threads| threads != entry.model.threads) {
            return Ok(None);
        }
        if entry.model.queued.load(Ordering::Relaxed) >= self.0.config.max_queue {
            return Err(LoadError::Busy);
        }
        let trained = entry.model.hparams.context_length as u32;
        entry.context_tokens = options.context_tokens.unwrap_or(DEFAULT_CONTEXT_TOKENS).min(trained).max(4);
        entry.keep_alive = keep_alive.unwrap_or(self.0.config.keep_alive);
        entry.expires = None;
        entry.leases += 1;
        Ok(Some(Lease {
            engine: self.clone(),
            id: id.to_owned(),
            model: Arc::clone(&entry.model),
            context_tokens: entry.context_tokens,
            load_ns: 0,
        }))
    }

    /// Unloads until there is a place and memory for another model: idle ones first, the next to expire before others;
    /// where all are busy, waits for one.
    async fn make_room(&self, id: &str, file: &ModelFile, options: &LoadOptions) -> Result<(), LoadError> {
        loop {
            let idle = self.0.idle.notified();
            let fits = if options.force {
                Ok(())
            } else {
                // Probed anew each time: what was just unloaded counts as free.
                check_memory(file, options.context_tokens.unwrap_or(DEFAULT_CONTEXT_TOKENS), &Machine::probe())
            };
            if let Err(error @ LoadError::Model(_)) = fits {
                return Err(error);
            }
            {
                let mut entries = self.0.entries();
                let replaces = entries.contains_key(id);
                if !replaces && entries.len() < self.0.config.max_loaded && (fits.is_ok() || entries.is_empty()) {
                    return fits;
                }
                let victim = entries
                    .iter()
                    .filter(|(key, entry)| entry.leases == 0 && (!replaces || key.as_str() == id))
                    .min_by_key(|(_, entry)| (entry.keep_alive, entry.expires))
                    .map(|(key, _)| key.clone());
                if let Some(key) = victim {
                    tracing::info!(id = %key, by = %id, "model unloaded to make room");
                    entries.remove(&key);
                    continue;
                }
            }
            idle.await;
        }
    }

    /// The compute team of this size; models with the same size share it.
    fn team(&self, threads: Option<usize>) -> std::io::Result<Arc<Team>> {
        let cores = &self.0.config.machine.cpu.usable_cores;
        let threads = threads.unwrap_or(cores.len()).max(1);
        let mut teams = self.0.teams.lock().expect("no code panics while it holds the teams");
        if let Some(team) = teams.get(&threads) {
            return Ok(Arc::clone(team));
        }
        let team = Arc::new(Team::new(threads, cores)?);
        teams.insert(threads, Arc::clone(&team));
        Ok(team)
    }

    /// Ends a lease.
    fn release(&self, id: &str, model: &Arc<LoadedModel>) {
        let mut entries = self.0.entries();
        // The entry may have gone, or be another load of the same model.
        let Some(entry) = entries.get_mut(id).filter(|entry| Arc::ptr_eq(&entry.model, model)) else { return };
        entry.leases -= 1;
        if entry.leases > 0 {
            return;
        }
        self.0.idle.notify_waiters();
        let KeepAlive::For(time) = entry.keep_alive else { return };
        // A time too long for the clock is for ever.
        let Some(expires) = Instant::now().checked_add(time) else { return };
        if time.is_zero() {
            entries.remove(id);
            return;
        }
        entry.expires = Some(expires);
        let (engine, id) = (self.clone(), id.to_owned());
        self.0.runtime.spawn(async move {
            tokio::time::sleep_until(expires.into()).await;
            let mut entries = engine.0.entries();
            if entries.get(&id).is_some_and(|entry| entry.expires == Some(expires)) {
                tracing::info!(%id, "model unloaded, its keep-alive is over");
                entries.remove(&id);
            }
        });
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

/// Keeps a model loaded. The keep-alive time starts when the last lease is dropped.
pub struct Lease {
    engine: Engine,
    id: ModelId,
    model: Arc<LoadedModel>,
    context_tokens: u32,
    load_ns: u64,
}

impl Lease {
    /// Time that this request waited for the model to load; 0 when it was loaded.
    pub fn load_ns(&self) -> u64 {
        self.load_ns
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.model.tokenizer
    }

    /// The chat template in the model's file, if it has one; why it cannot be used, if so.
    pub fn template(&self) -> Result<Option<&Template>, &cairn_prompt::Error> {
        self.model.template.as_ref().map(Option::as_ref)
    }

    /// The file's metadata.
    pub fn metadata(&self) -> &cairn_gguf::Metadata {
        self.model.file.gguf().metadata()
    }

    /// The model's shape.
    pub fn hparams(&self) -> &Hparams {
        &self.model.hparams
    }

    /// Tokens that prompt and answer may have together.
    pub fn context_tokens(&self) -> u32 {
        self.context_tokens
    }

    /// Starts an answer. Dropping the receiver cancels it; what was computed stays cached.
    pub fn generate(&self, request: Request) -> mpsc::Receiver<Event> {
        let (events, receiver) = mpsc::channel(EVENTS);
        let job = Job { request, context_tokens: self.context_tokens as usize, events };
        self.model.queued.fetch_add(1, Ordering::Relaxed);
        if let Err(returned) = self.model.jobs.send(job) {
            // The thread has ended, so the model's file failed or the engine closes.
            let _ = returned.0.events.try_send(Event::Failed(GenerateError::Unloaded));
        }
        receiver
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.engine.release(&self.id, &self.model);
    }
}
