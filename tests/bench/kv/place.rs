//! Tiers for benchmarks: a folder and RAM, as in the app.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use cairn_disk::RealDisk;
use cairn_runtime::CacheTiers;
use cairn_tier::{Clock, Config, FileKeys, LowerTier, Namespace, SsdOptions, SsdTier, Tiers};

const SECRET: &[u8] = b"the secret of a bench";
/// Timeout for the scan of a folder and for writes from RAM.
const WITHIN: Duration = Duration::from_secs(120);

/// Clock that counts from its creation.
pub(crate) struct Wall(Instant);

impl Wall {
    pub(crate) fn start() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for Wall {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn unix_s(&self) -> u64 {
        1_800_000_000
    }
}

/// A folder of chunks with fixed keys, so that any process can open it.
pub(crate) fn ssd(folder: &Path, options: SsdOptions) -> anyhow::Result<Arc<SsdTier>> {
    let keys = FileKeys::new(&Namespace::new(SECRET, "files"));
    // A constant nonce, since nothing is encrypted.
    Ok(Arc::new(SsdTier::open(Arc::new(RealDisk), folder, keys, options, || [0; 24])?))
}

/// Tiers with this RAM budget and a folder of at most 40 GiB, after its scan. With `use_cost_model` they restore only rows that
/// they expect to be faster than computing, as in the app, else all.
pub(crate) fn open(
    folder: &Path,
    ram_bytes: u64,
    options: SsdOptions,
    use_cost_model: bool,
) -> anyhow::Result<Arc<Tiers>> {
    let lower = LowerTier::ssd(&ssd(folder, options)?, 40 << 30, 0);
    let config = Config {
        ssd: Some(lower),
        min_tokens: 0,
        min_recompute: Duration::ZERO,
        use_cost_model,
        ..Config::new(ram_bytes)
    };
    let tiers = Tiers::open(config, Wall::start())?;
    ensure!(tiers.wait_idle(WITHIN), "the scan of the folder timed out");
    Ok(Arc::new(tiers))
}

/// Writes chunks that are only in RAM, and closes the tiers.
pub(crate) fn close(tiers: &Tiers) {
    tiers.shut_down(WITHIN);
}

pub(crate) fn namespace() -> Namespace {
    Namespace::new(SECRET, "bench")
}

pub(crate) fn kept(tiers: &Arc<Tiers>) -> CacheTiers {
    CacheTiers { tiers: Arc::clone(tiers), namespace: namespace() }
}
