//! Where computed prefixes are kept beyond their model's stay in memory: the tiers, by the settings.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use cairn_disk::{Disk, Mode, RealDisk};
use cairn_hardware::Machine;
use cairn_runtime::Kept;
use cairn_tier::{Config, FileKeys, Lower, Namespace, Ssd, SsdOptions, Tiers};

use crate::Clock;
use crate::settings::TierSettings;

/// Bytes of the secret that names chunks and seals them.
const SECRET_BYTES: usize = 32;
/// Most that RAM holds of its own accord, and its share of the memory.
const RAM_BYTES: u64 = 4 << 30;
const RAM_SHARE: u64 = 8;
/// Most that the folder holds of its own accord, and its share of what is free.
const FOLDER_BYTES: u64 = 20 << 30;
const FOLDER_SHARE: u64 = 10;
/// What may be written to the folder each day before it has come back: enough for most people, and a third of what a busy agent computes.
const EARLY_BYTES: u64 = 8 << 30;
/// What stays free on the folder's disk.
const FLOOR_BYTES: u64 = 10 << 30;
/// How long a shutdown waits for models to hand over what they have computed, and then for that to be written.
const HAND_OVER: Duration = Duration::from_secs(1);
/// Who holds the tiers when no model is loaded: the engine and the app.
const HOLDERS: usize = 2;

/// The time as the tiers see it.
struct Time {
    began: Instant,
    clock: Clock,
}

impl cairn_tier::Clock for Time {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn unix_s(&self) -> u64 {
        self.clock.now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}

/// Opens the tiers; none where the settings want none. What cannot be had is left out and said.
pub(crate) fn open(settings: &TierSettings, machine: &Machine, clock: &Clock) -> Option<Kept> {
    let memory = machine.memory.limit_bytes.unwrap_or(u64::MAX).min(machine.memory.total_bytes);
    let ram_bytes = settings.ram_bytes.unwrap_or_else(|| (memory / RAM_SHARE).min(RAM_BYTES));
    if ram_bytes == 0 && settings.folder.is_none() {
        return None;
    }
    let secret = match secret(&RealDisk, &settings.secret_file) {
        Ok(secret) => secret,
        Err(error) => {
            tracing::warn!(%error, "computed prefixes are not kept: their secret cannot be had");
            return None;
        }
    };
    let ssd = settings.folder.as_ref().and_then(|folder| {
        let opened = open_folder(folder, settings.folder_bytes, &secret);
        opened
            .map_err(
                |error| tracing::warn!(folder = %folder.display(), error, "computed prefixes are kept in RAM only"),
            )
            .ok()
    });
    let time = Time { began: Instant::now(), clock: clock.clone() };
    let config = Config { ssd, early_bytes: Some(EARLY_BYTES), ..Config::new(ram_bytes) };
    let tiers = Tiers::open(config, Arc::new(time));
    let tiers = tiers.map_err(|error| tracing::warn!(%error, "computed prefixes are not kept")).ok()?;
    tracing::info!(ram_bytes, folder = ?settings.folder, "computed prefixes are kept");
    Some(Kept { tiers: Arc::new(tiers), namespace: Namespace::new(&secret, "default") })
}

/// Waits until unloaded models have handed over what they had computed, and until that is written.
pub(crate) fn close(kept: &Kept) {
    let until = Instant::now() + HAND_OVER;
    while Arc::strong_count(&kept.tiers) > HOLDERS && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    kept.tiers.shut_down(HAND_OVER);
}

fn open_folder(folder: &Path, bytes: Option<u64>, secret: &[u8]) -> Result<Lower, String> {
    let keys = FileKeys::new(&Namespace::new(secret, "files"));
    let ssd = Ssd::open(Arc::new(RealDisk), folder, keys, SsdOptions::default(), || {
        let mut nonce = [0; 24];
        getrandom::fill(&mut nonce).expect("the system gave random numbers before");
        nonce
    });
    let ssd = Arc::new(ssd.map_err(|error| error.to_string())?);
    let free = ssd.free_bytes().map_err(|error| error.to_string())?;
    Ok(Lower::ssd(&ssd, bytes.unwrap_or_else(|| (free / FOLDER_SHARE).min(FOLDER_BYTES)), FLOOR_BYTES))
}

/// The installation's secret, which is made at the first need.
fn secret(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, String> {
    match disk.read(path) {
        Ok(secret) if secret.len() == SECRET_BYTES => return Ok(secret),
        // What was kept under a secret that is lost cannot be read any more, and ages out.
        Ok(_) => {
            tracing::warn!(path = %path.display(), "the secret of the kept prefixes was damaged; a new one is made")
        }
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.to_string()),
    }
    let mut secret = vec![0; SECRET_BYTES];
    getrandom::fill(&mut secret).map_err(|error| format!("the system has no random numbers: {error}"))?;
    if let Some(folder) = path.parent() {
        disk.create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    disk.write_atomic(path, &secret, Mode::Private).map_err(|error| error.to_string())?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_stays_and_a_damaged_one_is_replaced() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("kv/secret");
        let first = secret(&RealDisk, &path).expect("the folder is writable");
        assert_eq!(secret(&RealDisk, &path), Ok(first.clone()), "it is made once");
        std::fs::write(&path, b"short").expect("the folder is writable");
        let second = secret(&RealDisk, &path).expect("the folder is writable");
        assert_eq!(second.len(), SECRET_BYTES, "a damaged one is not used");
        assert_ne!(second, first, "and the new one is another");
    }
}
