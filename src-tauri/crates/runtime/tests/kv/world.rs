//! What the proofs run in: a folder of kept state, two tenants with an engine each, and two toy models that take turns in them.
//!
//! The tenants' toys answer differently, and so do the two models, so a row that reaches another tenant or another model is wrong.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cairn_disk::{Disk, RealDisk};
use cairn_gguf::DType;
use cairn_hardware::Machine;
use cairn_models::ModelFile;
use cairn_runtime::{Device, Engine, EngineConfig, KeepAlive, Kept, Lease, LoadOptions, Source};
use cairn_tensor::{Backend, Plan, Reference};
use cairn_testkit::families::{GEMMA3, LLAMA};
use cairn_testkit::toy::{Shape, Toy};
use cairn_testkit::{ModelSpec, tiny};
use cairn_tier::tiers::PlaceStatus;
use cairn_tier::{Clock, Config, FileKeys, Lower, Namespace, Place, Ssd, SsdOptions, Tiers, WeightsDigest};

use crate::lies::{Lie, LyingTier, Wrapped};

/// Tenants, each with an engine and a namespace.
pub(crate) const TENANTS: usize = 2;
/// Models, of which an engine holds one at a time: one with a window in every second layer, one without.
pub(crate) const MODELS: usize = 2;
/// Tokens of a context.
pub(crate) const CONTEXT: u32 = 2048;
/// Bytes of a position's rows: two layers, keys and values, two heads, 16 bytes.
pub(crate) const TOKEN_BYTES: u64 = 128;
/// Bytes that a file of a whole chunk takes at most: 32 KiB of rows, and the blocks around them.
pub(crate) const CHUNK_FILE_BYTES: u64 = 64 << 10;
/// What should take a moment takes no longer.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A clock whose hands can be put forward.
#[derive(Debug)]
pub(crate) struct Hands {
    started: Instant,
    ahead_ms: AtomicU64,
}

impl Hands {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), ahead_ms: AtomicU64::new(0) })
    }

    pub(crate) fn forward(&self, time: Duration) {
        self.ahead_ms.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for Hands {
    fn now(&self) -> Duration {
        self.started.elapsed() + Duration::from_millis(self.ahead_ms.load(Ordering::Relaxed))
    }

    fn unix_s(&self) -> u64 {
        1_800_000_000 + self.now().as_secs()
    }
}

/// How much there is room for, and what is made wrong on purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Bytes of one engine's pages.
    pub(crate) pages_bytes: u64,
    pub(crate) ram_bytes: u64,
    pub(crate) ssd_bytes: u64,
    /// How long a row takes to compute.
    pub(crate) row_time: Duration,
    /// Whether this process keeps the index of the folder.
    pub(crate) index: bool,
    pub(crate) lie: Option<Lie>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            pages_bytes: 32 * 64 * TOKEN_BYTES,
            ram_bytes: 2 << 20,
            ssd_bytes: 24 << 20,
            row_time: Duration::from_micros(60),
            index: true,
            lie: None,
        }
    }
}

/// A folder, and the models in it.
pub(crate) struct World {
    folder: PathBuf,
    plans: Vec<Plan>,
}

impl World {
    /// A world in this folder, which is a new one or that of an earlier process.
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
            let file = ModelFile::open(&path).expect("it was just written");
            cairn_models::load(&file, CONTEXT as usize, &mut Reference::new()).expect("the kit writes models").plan
        });
        Self { plans: plans.collect(), folder: folder.to_owned() }
    }

    /// What a tenant's toy of a model computes.
    pub(crate) fn shape(&self, tenant: usize, model: usize) -> Shape {
        Shape::new(&self.plans[model], DType::F16, salt(tenant))
    }

    /// Where chunks are kept.
    pub(crate) fn kept(&self) -> PathBuf {
        self.folder.join("kept")
    }

    /// Starts tiers and engines.
    pub(crate) fn live(&self, setting: Setting) -> Life {
        self.live_on(Arc::new(RealDisk), setting)
    }

    /// Starts tiers, on this disk, and engines.
    pub(crate) fn live_on(&self, disk: Arc<dyn Disk>, setting: Setting) -> Life {
        let clock = Hands::new();
        let keys = FileKeys::new(&Namespace::new(b"the secret of these proofs", "files"));
        let options = SsdOptions { threads: 2, ..SsdOptions::default() };
        let ssd = Arc::new(Ssd::open(disk, &self.kept(), keys, options, || [0; 24]).expect("the folder is writable"));
        let mut lower = Lower::ssd(&ssd, setting.ssd_bytes, 0);
        if let Some(lie) = setting.lie {
            lower.tier = Arc::new(LyingTier::new(lower.tier, lie));
        }
        let config = Config {
            ssd: Some(lower),
            index: setting.index.then(|| self.folder.join("index.redb")),
            min_tokens: 0,
            min_recompute: Duration::ZERO,
            weigh: false,
            ..Config::new(setting.ram_bytes)
        };
        let tiers = Arc::new(Tiers::open(config, Arc::clone(&clock) as _).expect("threads are to be had"));
        let engines = (0..TENANTS).map(|tenant| self.engine(tenant, &tiers, setting)).collect();
        Life { files: (0..MODELS).map(|model| model_file(&self.folder, model)).collect(), tiers, engines, clock, ssd }
    }

    fn engine(&self, tenant: usize, tiers: &Arc<Tiers>, setting: Setting) -> Engine {
        let mut machine = Machine::probe();
        let cores = machine.cpu.usable_cores.len();
        machine.cpu.usable_cores = vec![machine.cpu.usable_cores[tenant % cores]];
        let whose = if setting.lie == Some(Lie::OneNamespace) { 0 } else { tenant };
        let namespace = Namespace::new(b"the secret of these proofs", &format!("tenant {whose}"));
        let config = EngineConfig {
            machine,
            kernel: None,
            kv_budget_bytes: Some(setting.pages_bytes),
            kv_type: DType::F16,
            parallel: 4,
            max_loaded: 1,
            max_queue: 64,
            keep_alive: KeepAlive::Forever,
            seed: 1,
            kept: Some(Kept { tiers: Arc::clone(tiers), namespace }),
        };
        let device: Device = Arc::new(move |cpu| {
            let backend = Toy::new(cpu.caps().kv_type, salt(tenant), setting.row_time);
            if setting.lie == Some(Lie::ShortCopy) {
                Box::new(Wrapped { backend, copied: |rows| rows.saturating_sub(1), seen: Box::new(|_| ()) })
            } else {
                Box::new(backend)
            }
        });
        Engine::start_on(config, device).expect("a variant runs")
    }
}

fn model_file(folder: &Path, model: usize) -> PathBuf {
    folder.join(format!("{model}.gguf"))
}

/// What tells the tenants' toys apart.
fn salt(tenant: usize) -> u64 {
    1 + tenant as u64
}

/// Tiers and engines from a start to an end.
pub(crate) struct Life {
    files: Vec<PathBuf>,
    pub(crate) tiers: Arc<Tiers>,
    pub(crate) engines: Vec<Engine>,
    pub(crate) clock: Arc<Hands>,
    /// Held until the folder may be another's.
    ssd: Arc<Ssd>,
}

impl Life {
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

    /// Unloads all, and waits until what they had computed has been handed over.
    pub(crate) async fn hand_over(&self) {
        for engine in &self.engines {
            for model in 0..MODELS {
                engine.unload(&model.to_string());
            }
        }
        let until = Instant::now() + SOON;
        // One of ours, and one in each engine's settings.
        while Arc::strong_count(&self.tiers) > 1 + TENANTS && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// What a place holds, and has done.
    pub(crate) fn place(&self, place: Place) -> PlaceStatus {
        let status = self.tiers.status();
        let found = status.places.into_iter().find(|found| found.place == place);
        found.expect("all lives have RAM and a folder")
    }

    /// Ends it: what was computed is handed over, and written for at most `flush`.
    pub(crate) async fn end(self, flush: Duration) {
        self.hand_over().await;
        let Self { tiers, engines, ssd, .. } = self;
        engines.iter().for_each(Engine::shutdown);
        tokio::task::spawn_blocking(move || {
            tiers.shut_down(flush);
            drop((engines, tiers, ssd));
        })
        .await
        .expect("ending does not panic");
    }
}

/// Bytes that files take on the disk.
pub(crate) fn room_bytes(files: &[PathBuf]) -> u64 {
    let room = |path: &PathBuf| RealDisk.open_blocks(path).and_then(|blocks| blocks.room_bytes()).unwrap_or(0);
    files.iter().map(room).sum()
}
