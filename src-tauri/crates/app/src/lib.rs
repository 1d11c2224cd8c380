//! What the daemon does for its clients, whatever they speak: chat, generate, list, show, search, pull, push, import, create,
//! copy, delete, unload, and the upkeep of libraries.
//!
//! Transports parse, call and render; engines compute; between them this crate resolves names to model files, turns
//! messages into prompts that fit the context, and splits thinking from the answer. [`App`] is the entry point.
//!
//! **Invariants:** nothing here names a transport. Prompts and answers are never logged. A request that asks for what
//! this version cannot do is refused, not silently half-answered.
#![forbid(unsafe_code)]

mod answer;
mod beyond;
mod blobs;
mod cache;
mod catalog;
mod chat;
pub mod chats;
mod check;
mod clock;
mod copy;
mod create;
mod delete;
mod discover;
mod env;
mod error;
mod fit;
mod garbage;
mod generate;
mod hardware;
mod head;
mod import;
mod libraries;
mod load;
mod login;
mod metrics;
mod mirror;
mod nearby;
mod options;
mod outside;
mod overflow;
mod pebble;
mod places;
mod ps;
mod pull;
mod push;
mod scan;
pub mod settings;
mod share;
mod show;
mod summary;
mod template;
mod tiers;
mod trust;
mod verify;

use std::sync::Arc;

use cairn_disk::Presence;
use cairn_hardware::Machine;
use cairn_runtime::{Engine, EngineConfig};

pub use answer::{Answer, Cost, Done, Event, Reason, Said};
pub use blobs::Upload;
pub use cache::{
    CacheError, CacheLimits, CacheStatus, CacheTest, Checkup, KeptContext, LimitChange, LimitError, Limited,
    TestedPlace, TracePrompt, Traced, check_folder,
};
pub use cairn_registry::{
    Discovered, Gate, GateError, JoinProof, JoinRequest, Known, Login, PeerKey, Seal, Shelf, Variant,
};
pub use cairn_runtime::{Likely, Logprob, Whose};
pub use cairn_store::{Collected, Flaw, Leftover, LeftoverKind, ModelUsage, Progress, Role, Stage, State, Usage, Way};
pub use cairn_tier::tiers::{Deleted as DeletedChunks, Flow, Health, PlaceStatus};
pub use cairn_tier::{Owner, Place};
pub use chat::{Begun, Chat, Message};
pub use check::{Check, CheckEvent, Checked, Flawed};
pub use clock::Clock;
pub use copy::{Copied, CopyEvent};
pub use create::{Create, CreateEvent};
pub use delete::Deleted;
pub use discover::{Discover, Discovery, Hit};
pub use env::Env;
pub use error::{Error, Kind};
pub use generate::Generate;
pub use hardware::{DiskUse, Hardware, Kernel, Stored};
pub use head::{Head, read as read_head};
pub use import::{Import, ImportEvent, Imported, Taking};
pub use libraries::{LibraryInfo, LibraryUsage};
pub use load::Reply;
pub use login::{LoggedIn, LoginAttempt, LoginError};
pub use metrics::{Family, FamilyKind, Sample};
pub use mirror::{BlobBytes, BlobReader, Client, MirrorCounts, Offer, OfferedManifest};
pub use nearby::FoundPeer;
pub use overflow::{ContextShift, Overflow, Truncated, UnknownContextShift};
pub use places::{NoHome, Places, System};
pub use ps::Running;
pub use pull::{Pull, PullError, PullEvent, PullEvents, PullRow, PullState, PullStep, PulledBlob, check_name};
pub use push::{Push, PushError, PushEvent, pushed_to};
pub use scan::{Found, Keeper, Kept, Scan, ScanEvent, Scanned, Standing};
pub use settings::{Address, MirrorSettings, MirroredOrigin, SettingTable, Settings, SettingsError};
pub use share::{Peer, Peers, Reference, Serving, SharedBlob, SharedManifest};
pub use show::{Shown, TensorRow};
pub use summary::{Details, Summary};
pub use tiers::KeyPlace;
pub use trust::Invited;
pub use verify::{DamagedTensor, Verified, verify};

pub use catalog::Opened;

use catalog::Catalog;
use mirror::Mirror;
use nearby::Lan;
use pull::Pulls;
use trust::Trust;

/// The version of this program, `x.y.z`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Requests that one model answers at once, unless the settings say otherwise: batches of this size cost little more than
/// one request.
const DEFAULT_PARALLEL: usize = 8;
/// Models that are loaded at once, unless the settings say otherwise. Ollama's number for machines without a GPU.
const DEFAULT_MAX_LOADED: usize = 3;

/// The daemon's use cases. Clones share everything.
#[derive(Clone)]
pub struct App {
    engine: Engine,
    catalog: Arc<Catalog>,
    pulls: Pulls,
    mirror: Mirror,
    trust: Arc<Trust>,
    templates_told: Arc<template::Told>,
    lan: Arc<Lan>,
    settings: Arc<Settings>,
    /// What of them has changed since.
    held: Arc<settings::Held>,
    /// The machine, as it was at the start.
    machine: Arc<Machine>,
    clock: Clock,
    peers: Peers,
    /// Tells other daemons that this one uses the library.
    present: Option<Arc<Presence>>,
    /// Where computed prefixes are kept.
    kept: Option<Arc<cairn_runtime::Kept>>,
    /// Where the key is that seals them.
    tier_key: Option<KeyPlace>,
    /// What is remembered of them beside.
    book: Arc<cache::Book>,
    /// Chats, and their answers under way.
    notebook: Arc<chats::Notebook>,
    /// Bytes of memory that this process may use.
    memory_bytes: u64,
}

impl App {
    /// Starts an engine, with nothing loaded, and the use cases over it. Must be called inside a tokio runtime. `seed` is
    /// where the seeds of requests come from that name none.
    ///
    /// # Errors
    /// When the settings ask for kernels that this machine cannot run, or for a type of the attention cache that there is not.
    pub fn start(settings: Settings, machine: Machine, clock: Clock, seed: u64) -> Result<Self, Error> {
        let settings = cache::Book::open(&settings).applied(settings);
        let memory_bytes = machine.memory.limit_bytes.unwrap_or(u64::MAX).min(machine.memory.total_bytes);
        let (kept, tier_key) =
            tiers::open(&settings.tiers, &machine, &clock).map(|opened| (opened.kept, opened.key)).unzip();
        let probed = Arc::new(machine.clone());
        let config = EngineConfig {
            machine,
            kernel: settings.kernel.clone(),
            kv_budget_bytes: settings.kv_budget_bytes,
            kv_type: load::kv_type(settings.kv_cache_type.as_deref())?,
            parallel: settings.parallel.unwrap_or(DEFAULT_PARALLEL),
            max_loaded: settings.max_loaded.unwrap_or(DEFAULT_MAX_LOADED),
            max_queue: settings.max_queue,
            keep_alive: load::engine_keep_alive(settings.keep_alive),
            seed,
            kept: kept.clone(),
        };
        let engine = Engine::start(config).map_err(|error| Error::Engine(error.to_string()))?;
        let mut app = Self::new(engine, settings, probed, clock, seed);
        app.kept = kept.map(Arc::new);
        app.tier_key = tier_key.flatten();
        app.memory_bytes = memory_bytes;
        app.present = app.clear_up().map(Arc::new);
        app.pulls.restore();
        Ok(app)
    }

    fn new(engine: Engine, settings: Settings, machine: Arc<Machine>, clock: Clock, seed: u64) -> Self {
        let catalog = Arc::new(Catalog::new(&settings, clock.now()));
        let pulls = Pulls::new(catalog.libraries(), &settings.downloads, &clock, seed);
        let mirror = Mirror::new(pulls.clone(), settings.mirror.clone());
        let trust = Arc::new(Trust::new(settings.mirror.clients_file.clone()));
        let (lan, peers) = (Arc::default(), Peers::default());
        Self {
            book: Arc::new(cache::Book::open(&settings)),
            held: Arc::new(settings::Held::of(&settings)),
            machine,
            memory_bytes: 0,
            notebook: Arc::new(chats::Notebook::new(settings.chats_file.clone())),
            engine,
            catalog,
            pulls,
            mirror,
            trust,
            lan,
            settings: Arc::new(settings),
            clock,
            peers,
            present: None,
            kept: None,
            tier_key: None,
            templates_told: Arc::default(),
        }
    }

    /// The settings that held when it started.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The clock that everything here goes by.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// All models: those of the libraries, the built-in one, and files that were opened; the newest first.
    ///
    /// # Errors
    /// When a library is there and cannot be read.
    pub fn list(&self) -> Result<Vec<Summary>, Error> {
        self.catalog.list()
    }

    /// Makes a model file known by a name until the daemon ends.
    ///
    /// # Errors
    /// When it cannot be read, or is no GGUF file.
    pub fn open(&self, path: &std::path::Path) -> Result<Opened, Error> {
        self.catalog.open(path)
    }

    /// Where the key is that seals files of the tiers; none where none are sealed.
    #[must_use]
    pub fn tier_key(&self) -> Option<KeyPlace> {
        self.tier_key
    }

    /// Ends everything that runs and unloads every model. What answers in chats have so far is written down first.
    pub fn shutdown(&self) {
        self.cut_answers();
        self.engine.shutdown();
    }

    /// Writes down what models have computed, where that is kept. Comes after [`App::shutdown`], and takes 2 s at most.
    pub fn keep_prefixes(&self) {
        if let Some(kept) = &self.kept {
            tiers::close(kept);
        }
    }
}
