//! The environment of the proofs: a chunk folder, two tenants with an engine each, and two toy models.
//!
//! Tenants and models have different answers, so a row of another tenant or model causes a wrong answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn_disk::{Disk, RealDisk};
use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_models::ModelFile;
use cairn_runtime::{CacheTiers, Device, Engine, EngineConfig, KeepAlive, Lease, LoadOptions, Source};
use cairn_tensor::{Backend, Plan, Reference};
use cairn_testkit::families::{GEMMA3, LLAMA};
use cairn_testkit::hash_backend::{HashBackend, HashModel};
use cairn_testkit::{ModelSpec, tiny};
use cairn_tier::tiers::TierStatus;
use cairn_tier::{Clock, Config, FileKeys, LowerTier, Namespace, SsdOptions, SsdTier, TierKind, Tiers, WeightsDigest};

use crate::faults::{CacheFault, FaultyTier, WrappedBackend};

/// Number of tenants. Each has an engine and a namespace.
pub(crate) const TENANTS: usize = 2;
/// Number of models. An engine loads one at a time. One of them has a window in every second layer.
pub(crate) const MODELS: usize = 2;
/// Context size.
pub(crate) const CONTEXT: u32 = 2048;
/// Size of a token's rows: two layers, keys and values, two heads, 16 bytes.
pub(crate) const TOKEN_BYTES: u64 = 128;
/// Maximum size of a full chunk's file: 32 KiB of rows, and the blocks around them.
pub(crate) const CHUNK_FILE_BYTES: u64 = 64 << 10;
/// Timeout for short operations.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// A clock that tests advance.
#[derive(Debug)]
pub(crate) struct MockClock {
    started: Instant,
    ahead_ms: AtomicU64,
}

impl MockClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), ahead_ms: AtomicU64::new(0) })
    }

    pub(crate) fn forward(&self, time: Duration) {
        self.ahead_ms.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for MockClock {
    fn now(&self) -> Duration {
        self.started.elapsed() + Duration::from_millis(self.ahead_ms.load(Ordering::Relaxed))
    }

    fn unix_s(&self) -> u64 {
        1_800_000_000 + self.now().as_secs()
    }
}

/// Budgets, and the injected fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Budget of one engine's pages.
    pub(crate) pages_bytes: u64,
    pub(crate) ram_bytes: u64,
    pub(crate) ssd_bytes: u64,
    /// Time to compute a row.
    pub(crate) row_time: Duration,
    /// Whether this process opens the index of the folder.
    pub(crate) index: bool,
    /// Whether only chunks that must survive a crash are written before RAM needs their space, as in the daemon.
    pub(crate) sparing: bool,
    pub(crate) fault: Option<CacheFault>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pages_bytes: 32 * 64 * TOKEN_BYTES,
            ram_bytes: 2 << 20,
            ssd_bytes: 24 << 20,
            row_time: Duration::from_micros(60),
            index: true,
            sparing: false,
            fault: None,
        }
    }
}

/// A folder with the models and chunks.
pub(crate) struct World {
    folder: PathBuf,
    plans: Vec<Plan>,
}

impl World {
    /// Opens a folder, which may be new.
    pub(crate) fn new(folder: &Path) -> Self {
        let families = [&LLAMA, &GEMMA3];
        let plans = families.into_iter().enumerate().map(|(model, family)| {
            let path = model_file(folder, model);
            if !path.exists() {
                let spec = ModelSpec {
                    seed: model as u64,
                    width: 64,
                    heads: 4,
                    kv_heads: 2,
                    head_dim: 8,
                    ffn: 64,
                    ..tiny(family)
                };
                let passing = path.with_extension(format!("{}", std::process::id()));
                cairn_testkit::write_file(&spec, &passing).expect("the folder is writable");
                std::fs::rename(&passing, &path).expect("the folder is writable");
            }
            let file = ModelFile::open(&path).expect("the file was just written");
            cairn_models::load(&file, CONTEXT as usize, &mut Reference::new())
                .expect("testkit writes valid models")
                .plan
        });
        Self { plans: plans.collect(), folder: folder.to_owned() }
    }

    /// The function that a tenant's toy model computes.
    pub(crate) fn shape(&self, tenant: usize, model: usize) -> HashModel {
        HashModel::new(&self.plans[model], DType::F16, salt(tenant))
    }

    /// The folder of the chunks.
    pub(crate) fn chunk_folder(&self) -> PathBuf {
        self.folder.join("kept")
    }

    /// Starts tiers and engines.
    pub(crate) fn start(&self, settings: Settings) -> Instance {
        self.start_on(Arc::new(RealDisk), settings)
    }

    /// Starts tiers, on this disk, and engines.
    pub(crate) fn start_on(&self, disk: Arc<dyn Disk>, settings: Settings) -> Instance {
        let clock = MockClock::new();
        let keys = FileKeys::new(&Namespace::new(b"the secret of these proofs", "files"));
        let options = SsdOptions { threads: 2, ..SsdOptions::default() };
        let ssd = Arc::new(
            SsdTier::open(disk, &self.chunk_folder(), keys, options, || [0; 24]).expect("the folder is writable"),
        );
        let mut lower = LowerTier::ssd(&ssd, settings.ssd_bytes, 0);
        if let Some(fault) = settings.fault {
            lower.tier = Arc::new(FaultyTier::new(lower.tier, fault));
        }
        let config = Config {
            ssd: Some(lower),
            index_path: settings.index.then(|| self.folder.join("index.redb")),
            ..Config::new(settings.ram_bytes)
        };
        let config = if settings.sparing {
            Config { early_write_bytes: Some(1 << 30), ..config }
        } else {
            Config { min_tokens: 0, min_recompute: Duration::ZERO, use_cost_model: false, ..config }
        };
        let tiers = Arc::new(Tiers::open(config, Arc::clone(&clock) as _).expect("threads start"));
        let engines = (0..TENANTS).map(|tenant| self.engine(tenant, &tiers, settings)).collect();
        Instance {
            files: (0..MODELS).map(|model| model_file(&self.folder, model)).collect(),
            tiers,
            engines,
            clock,
            ssd,
        }
    }

    fn engine(&self, tenant: usize, tiers: &Arc<Tiers>, settings: Settings) -> Engine {
        let mut machine = Machine::probe();
        let cores = machine.cpu.usable_cores.len();
        machine.cpu.usable_cores = vec![machine.cpu.usable_cores[tenant % cores]];
        let name = if settings.fault == Some(CacheFault::OneNamespace) { 0 } else { tenant };
        let namespace = Namespace::new(b"the secret of these proofs", &format!("tenant {name}"));
        let config = EngineConfig {
            machine,
            kernel: None,
            kv_budget_bytes: Some(settings.pages_bytes),
            kv_type: DType::F16,
            parallel: 4,
            max_loaded: 1,
            max_queue: 64,
            keep_alive: KeepAlive::Forever,
            load_timeouts: cairn_runtime::LoadTimeouts::default(),
            seed: 1,
            cache_tiers: Some(CacheTiers { tiers: Arc::clone(tiers), namespace }),
        };
        let device: Device = Arc::new(move |cpu| {
            let backend = HashBackend::new(cpu.caps().kv_type, salt(tenant), settings.row_time);
            if settings.fault == Some(CacheFault::ShortCopy) {
                Box::new(WrappedBackend { backend, copied: |rows| rows.saturating_sub(1), observer: Box::new(|_| ()) })
            } else {
                Box::new(backend)
            }
        });
        Engine::start_on(config, device).expect("a kernel variant runs")
    }
}

fn model_file(folder: &Path, model: usize) -> PathBuf {
    folder.join(format!("{model}.gguf"))
}

/// Salt that makes the tenants' answers differ.
fn salt(tenant: usize) -> u64 {
    1 + tenant as u64
}

/// Running tiers and engines.
pub(crate) struct Instance {
    files: Vec<PathBuf>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) engines: Vec<Engine>,
    pub(crate) clock: Arc<MockClock>,
    /// Holds the lock of the folder.
    ssd: Arc<SsdTier>,
}

impl Instance {
    /// A tenant's lease of a model.
    pub(crate) async fn lease(&self, tenant: usize, model: usize) -> Lease {
        let options = LoadOptions {
            context_tokens: Some(CONTEXT),
            threads: Some(1),
            force: true,
            weights: Some(WeightsDigest([model as u8; 32])),
            ..LoadOptions::default()
        };
        let source = Source::File(self.files[model].clone());
        self.engines[tenant].acquire(model.to_string(), source, options, None).await.expect("the model loads")
    }

    /// Unloads a tenant's model as soon as it is idle.
    pub(crate) fn unload(&self, tenant: usize, model: usize) {
        self.engines[tenant].unload(&model.to_string());
    }

    /// Unloads all models, and waits until they have flushed their caches.
    pub(crate) async fn unload_all(&self) {
        for engine in &self.engines {
            for model in 0..MODELS {
                engine.unload(&model.to_string());
            }
        }
        let until = Instant::now() + TIMEOUT;
        // One reference belongs to this value, and one belongs to each engine's configuration.
        while Arc::strong_count(&self.tiers) > 1 + TENANTS && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Status of a tier.
    pub(crate) fn place(&self, place: TierKind) -> TierStatus {
        let status = self.tiers.status();
        let found = status.tiers.into_iter().find(|found| found.kind == place);
        found.expect("there is RAM and a folder")
    }

    /// Flushes all caches, and writes chunks for at most `flush`.
    pub(crate) async fn end(self, flush: Duration) {
        self.unload_all().await;
        let Self { tiers, engines, ssd, .. } = self;
        engines.iter().for_each(Engine::shutdown);
        tokio::task::spawn_blocking(move || {
            tiers.shut_down(flush);
            drop((engines, tiers, ssd));
        })
        .await
        .expect("no panic");
    }
}

/// Space that files use on the disk.
pub(crate) fn disk_bytes(files: &[PathBuf]) -> u64 {
    let bytes = |path: &PathBuf| RealDisk.open_blocks(path).and_then(|blocks| blocks.allocated_bytes()).unwrap_or(0);
    files.iter().map(bytes).sum()
}
