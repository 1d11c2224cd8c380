//! Where computed prefixes are kept beyond their model's stay in memory: the tiers, by the settings.
//!
//! What cannot be had is left out and said in one line of the log; the rest works.

mod keys;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use cairn_disk::{Disk, RealDisk};
use cairn_hardware::Machine;
use cairn_runtime::CacheTiers;
use cairn_store::Digest;
use cairn_tier::{
    Bucket, Checksum, Config, FileKeys, FileStore, LowerTier, Namespace, Packing, RemoteOptions, RemoteTier,
    SharedFolder, SsdOptions, SsdTier, Tiers,
};

use crate::clock::Clock;
use crate::settings::{Compress, RemotePlace, TierSettings};
pub use keys::KeyPlace;
use keys::SystemKeychain;

/// Most that RAM holds of its own accord, and its share of the memory.
const RAM_BYTES: u64 = 4 << 30;
const RAM_SHARE: u64 = 8;
/// Most that the folder holds of its own accord, and its share of what is free.
const FOLDER_BYTES: u64 = 20 << 30;
const FOLDER_SHARE: u64 = 10;
/// What may be written to the folder each day before it has come back: enough for most people, and a third of what a busy agent computes.
const EARLY_BYTES: u64 = 8 << 30;
/// What the remote place holds of its own accord.
const REMOTE_BYTES: u64 = 100 << 30;
/// What stays free on the folder's disk: so much, and this share of it.
const FLOOR_BYTES: u64 = 11_000_000_000;
const FLOOR_SHARE: u64 = 20;
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

/// The tiers, and where the key is that seals files of theirs.
pub(crate) struct Opened {
    pub(crate) kept: CacheTiers,
    pub(crate) key: Option<KeyPlace>,
}

/// What files are named and sealed with.
struct Secrets {
    /// Names chunks, and tells files that are ours.
    secret: Vec<u8>,
    /// Seals.
    seal: Option<Vec<u8>>,
}

impl Secrets {
    /// The keys of files in a place. Those of sealed ones hang on the key that seals: with it gone, nobody can read them, and they are
    /// still ours to remove.
    fn of(&self, place: &str, seals: bool) -> Result<FileKeys, String> {
        let home = Namespace::new(&self.secret, place);
        if !seals {
            return Ok(FileKeys::new(&home));
        }
        let seal = self.seal.as_ref().ok_or("there is no key to encrypt with")?;
        Ok(RemoteTier::keys(&Namespace::new(seal, place)).with_installation(&home))
    }
}

/// Opens the tiers; none where the settings want none.
pub(crate) fn open(settings: &TierSettings, machine: &Machine, clock: &Clock) -> Option<Opened> {
    let memory = machine.memory.limit_bytes.unwrap_or(u64::MAX).min(machine.memory.total_bytes);
    let ram_bytes = settings.values.ram_bytes.unwrap_or_else(|| (memory / RAM_SHARE).min(RAM_BYTES));
    if ram_bytes == 0 && settings.folder.is_none() && settings.remote.is_none() {
        return None;
    }
    let secret = match keys::secret(&RealDisk, &settings.secret_file) {
        Ok(secret) => secret,
        Err(error) => {
            tracing::warn!(%error, "computed prefixes are not kept: their secret cannot be had");
            return None;
        }
    };
    let seals = settings.folder.is_some() && settings.values.encrypt.folder
        || settings.remote.is_some() && settings.values.encrypt.remote;
    let (seal, key) = seals.then(|| seal(settings)).flatten().unzip();
    let secrets = Secrets { secret, seal };
    let time: Arc<dyn cairn_tier::Clock> = Arc::new(Time { began: Instant::now(), clock: clock.clone() });
    let ssd = settings.folder.as_ref().and_then(|folder| {
        open_folder(folder, settings, &secrets)
            .map_err(|error| tracing::warn!(folder = %folder.display(), error, "no prefixes are kept in this folder"))
            .ok()
    });
    let remote = settings.remote.as_ref().and_then(|place| {
        open_remote(place, settings, &secrets, &time)
            .map_err(|error| tracing::warn!(%place, error, "no prefixes are kept in this remote place"))
            .ok()
    });
    let index = (ssd.is_some() || remote.is_some()).then(|| index_file(settings)).flatten();
    let lossy = settings.values.compress == Some(Compress::Compact);
    let weigh = settings.values.weigh;
    let config = Config {
        ssd,
        remote,
        index_path: index,
        ttl: settings.values.ttl,
        allow_lossy: lossy,
        use_cost_model: weigh,
        early_write_bytes: Some(EARLY_BYTES),
        ..Config::new(ram_bytes)
    };
    let tiers = Tiers::open(config, time).map(Arc::new);
    let tiers = tiers.map_err(|error| tracing::warn!(%error, "computed prefixes are not kept")).ok()?;
    watch::health(&tiers);
    tracing::info!(
        ram_bytes,
        folder = ?settings.folder,
        remote = settings.remote.as_ref().map(tracing::field::display),
        key = key.map(tracing::field::display),
        "computed prefixes are kept"
    );
    Some(Opened { kept: CacheTiers { tiers, namespace: Namespace::new(&secrets.secret, "default") }, key })
}

/// Waits until unloaded models have handed over what they had computed, and until that is written.
pub(crate) fn close(kept: &CacheTiers) {
    let until = Instant::now() + HAND_OVER;
    while Arc::strong_count(&kept.tiers) > HOLDERS && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    kept.tiers.shut_down(HAND_OVER);
}

/// Where uses and owners are remembered; none where there is no room for it.
fn index_file(settings: &TierSettings) -> Option<PathBuf> {
    let file = &settings.index_file;
    let made = file.parent().map_or(Ok(()), |folder| RealDisk.create_dir_all(folder));
    made.map_err(|error| tracing::warn!(%error, "owners and pins of kept prefixes are forgotten at the end")).ok()?;
    Some(file.clone())
}

/// The folder, for whoever checks what is in it. Files of another secret than
/// ours are none of its business; those of another key are damaged to it.
pub(crate) fn folder(folder: &Path, settings: &TierSettings) -> Result<SsdTier, String> {
    let seal = if settings.values.encrypt.folder { seal(settings).map(|(seal, _)| seal) } else { None };
    files(folder, settings, &Secrets { secret: keys::secret(&RealDisk, &settings.secret_file)?, seal })
}

/// The key that seals, which is made at the first need.
fn seal(settings: &TierSettings) -> Option<(Vec<u8>, KeyPlace)> {
    let keychain = settings.keychain.then_some(&SystemKeychain as &dyn keys::Keychain);
    keys::seal(&RealDisk, keychain, &settings.key_file)
        .map_err(|error| tracing::warn!(error, "no prefixes are kept encrypted: their key cannot be had"))
        .ok()
}

fn files(folder: &Path, settings: &TierSettings, secrets: &Secrets) -> Result<SsdTier, String> {
    let keys = secrets.of("files", settings.values.encrypt.folder)?;
    let options = SsdOptions { packing: packing(settings.values.compress, Packing::Raw), ..SsdOptions::default() };
    SsdTier::open(Arc::new(RealDisk), folder, keys, options, nonce).map_err(|error| error.to_string())
}

fn open_folder(folder: &Path, settings: &TierSettings, secrets: &Secrets) -> Result<LowerTier, String> {
    let ssd = Arc::new(files(folder, settings, secrets)?);
    let free = ssd.free_bytes().map_err(|error| error.to_string())?;
    let total = cairn_disk::total_bytes(folder).map_err(|error| error.to_string())?;
    let budget = settings.values.folder_bytes.unwrap_or_else(|| (free / FOLDER_SHARE).min(FOLDER_BYTES));
    let floor = settings.values.reserve_bytes.unwrap_or_else(|| (total / FLOOR_SHARE).max(FLOOR_BYTES));
    let lower = LowerTier::ssd(&ssd, budget, floor);
    Ok(LowerTier { daily_write_bytes: settings.values.daily_write_bytes, ..lower })
}

fn open_remote(
    place: &RemotePlace,
    settings: &TierSettings,
    secrets: &Secrets,
    time: &Arc<dyn cairn_tier::Clock>,
) -> Result<LowerTier, String> {
    let keys = secrets.of("place", settings.values.encrypt.remote)?.with_checksum(Checksum::Keyed);
    let files: Arc<dyn FileStore> = match place {
        RemotePlace::Folder(folder) => {
            let name = Digest::of(folder.as_os_str().as_encoded_bytes()).hex();
            Arc::new(SharedFolder::new(folder).remembered_in(settings.shares_folder.join(name)))
        }
        RemotePlace::Bucket { address, settings } => {
            let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
            Arc::new(Bucket::open(address, settings).map_err(|error| error.to_string())?)
        }
    };
    let options =
        RemoteOptions { packing: packing(settings.values.compress, Packing::Lossless), ..RemoteOptions::default() };
    let remote = RemoteTier::open(files, keys, options, Arc::clone(time), nonce).map_err(|error| error.to_string())?;
    // Whoever else has the secret and the key is this user, on another machine: what one evicts the other computes again.
    Ok(LowerTier::remote(&Arc::new(remote), settings.values.remote_bytes.unwrap_or(REMOTE_BYTES), true))
}

fn packing(asked: Option<Compress>, otherwise: Packing) -> Packing {
    match asked {
        None => otherwise,
        Some(Compress::Off) => Packing::Raw,
        Some(Compress::On) => Packing::Lossless,
        Some(Compress::Compact) => Packing::Compact,
    }
}

fn nonce() -> [u8; 24] {
    let mut nonce = [0; 24];
    getrandom::fill(&mut nonce).expect("the system gave random numbers before");
    nonce
}

#[cfg(test)]
mod tests;
