//! Tiers for a bench: a folder and RAM, as the app has them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use cairn_disk::RealDisk;
use cairn_runtime::Kept;
use cairn_tier::{Clock, Config, FileKeys, Lower, Namespace, Ssd, SsdOptions, Tiers};

const SECRET: &[u8] = b"the secret of a bench";
/// How long a folder may take to be looked over, or what is in RAM to be written.
const WITHIN: Duration = Duration::from_secs(120);

/// Time since a start, on a day that does not matter.
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

/// A folder of chunks. What it holds does not depend on who opens it.
pub(crate) fn ssd(folder: &Path, options: SsdOptions) -> anyhow::Result<Arc<Ssd>> {
    let keys = FileKeys::new(&Namespace::new(SECRET, "files"));
    // One nonce for all, since nothing here is sealed.
    Ok(Arc::new(Ssd::open(Arc::new(RealDisk), folder, keys, options, || [0; 24])?))
}

/// Tiers over this much RAM and a folder of 40 GiB, once what lies there is known. They bring all back that they have, or, as the app's
/// do, only what they take to be quicker than computing.
pub(crate) fn open(folder: &Path, ram_bytes: u64, options: SsdOptions, weigh: bool) -> anyhow::Result<Arc<Tiers>> {
    let lower = Lower::ssd(&ssd(folder, options)?, 40 << 30, 0);
    let config =
        Config { ssd: Some(lower), min_tokens: 0, min_recompute: Duration::ZERO, weigh, ..Config::new(ram_bytes) };
    let tiers = Tiers::open(config, Wall::start())?;
    ensure!(tiers.settle(WITHIN), "the folder cannot be looked over");
    Ok(Arc::new(tiers))
}

/// Writes what is only in RAM, and ends.
pub(crate) fn close(tiers: &Tiers) {
    tiers.shut_down(WITHIN);
}

pub(crate) fn namespace() -> Namespace {
    Namespace::new(SECRET, "bench")
}

pub(crate) fn kept(tiers: &Arc<Tiers>) -> Kept {
    Kept { tiers: Arc::clone(tiers), namespace: namespace() }
}
