//! Opens the tiers of cached rows, as the settings describe them.
//!
//! A tier that cannot be opened is left out, with one warning in the log. The others work.

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
use crate::settings::{Compress, RemoteLocation, TierSettings};
pub use keys::KeyLocation;
use keys::SystemKeychain;

/// Default of the RAM tier: the smaller of a size and a share of the memory.
const RAM_BYTES: u64 = 4 << 30;
const RAM_SHARE: u64 = 8;
/// Default of the folder: the smaller of a size and a share of the free space.
const FOLDER_BYTES: u64 = 20 << 30;
const FOLDER_SHARE: u64 = 10;
/// Daily write limit for chunks that have not been reused yet: enough for most users, a third of what a busy agent
/// computes.
const EARLY_BYTES: u64 = 8 << 30;
/// Default of the remote tier.
const REMOTE_BYTES: u64 = 100 << 30;
/// Space that stays free on the folder's disk: the larger of a size and a share of the disk.
const FLOOR_BYTES: u64 = 11_000_000_000;
const FLOOR_SHARE: u64 = 20;
/// Timeout at shutdown for models to flush their chunks, and then for these writes.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// References to the tiers when no model is loaded: the engine and the app.
const HOLDERS: usize = 2;

/// Clock of the tiers.
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

/// The opened tiers, and the place of the key that encrypts their files.
pub(crate) struct Opened {
    pub(crate) kept: CacheTiers,
    pub(crate) key: Option<KeyLocation>,
}

/// Secrets that name and encrypt files.
struct Secrets {
    /// Derives the names of chunks, and identifies files of this installation.
    secret: Vec<u8>,
    /// Encrypts files.
    encryption_key: Option<Vec<u8>>,
}

impl Secrets {
    /// Returns the keys of a place's files. Encrypted files depend on the encryption key: without it they cannot be
    /// read, but they can still be identified and removed.
    fn of(&self, place: &str, seals: bool) -> Result<FileKeys, String> {
        let home = Namespace::new(&self.secret, place);
        if !seals {
            return Ok(FileKeys::new(&home));
        }
        let key = self.encryption_key.as_ref().ok_or("there is no key to encrypt with")?;
        Ok(RemoteTier::keys(&Namespace::new(key, place)).with_installation(&home))
    }
}

/// Opens the tiers; `None` if the settings disable all of them.
pub(crate) fn open(settings: &TierSettings, machine: &Machine, clock: &Clock) -> Option<Opened> {
    let ram_bytes =
        settings.values.ram_bytes.unwrap_or_else(|| (machine.memory.usable_bytes() / RAM_SHARE).min(RAM_BYTES));
    if ram_bytes == 0 && settings.folder.is_none() && settings.remote.is_none() {
        return None;
    }
    let secret = match keys::secret(&RealDisk, &settings.secret_file) {
        Ok(secret) => secret,
        Err(error) => {
            tracing::warn!(%error, "the cache is off: cannot read or create its secret");
            return None;
        }
    };
    let seals = settings.folder.is_some() && settings.values.encrypt.folder
        || settings.remote.is_some() && settings.values.encrypt.remote;
    let (encryption_key, key) = seals.then(|| encryption_key(settings)).flatten().unzip();
    let secrets = Secrets { secret, encryption_key };
    let time: Arc<dyn cairn_tier::Clock> = Arc::new(Time { began: Instant::now(), clock: clock.clone() });
    let ssd = settings.folder.as_ref().and_then(|folder| {
        open_folder(folder, settings, &secrets)
            .map_err(|error| tracing::warn!(folder = %folder.display(), error, "cannot open the SSD tier"))
            .ok()
    });
    let remote = settings.remote.as_ref().and_then(|place| {
        open_remote(place, settings, &secrets, &time)
            .map_err(|error| tracing::warn!(%place, error, "cannot open the remote tier"))
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
    let tiers = tiers.map_err(|error| tracing::warn!(%error, "the cache is off: cannot open its tiers")).ok()?;
    watch::health(&tiers);
    if let Some(error) = tiers.status().index_error {
        tracing::warn!(error, "the index of the cache is not used: owners and pins are lost at shutdown");
    }
    tracing::info!(
        ram_bytes,
        folder = ?settings.folder,
        remote = settings.remote.as_ref().map(tracing::field::display),
        key = key.map(tracing::field::display),
        "the cache is open"
    );
    Some(Opened { kept: CacheTiers { tiers, namespace: Namespace::new(&secrets.secret, "default") }, key })
}

/// Waits until unloaded models have flushed their chunks, and until these are written.
pub(crate) fn close(kept: &CacheTiers) {
    let until = Instant::now() + FLUSH_TIMEOUT;
    while Arc::strong_count(&kept.tiers) > HOLDERS && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    kept.tiers.shut_down(FLUSH_TIMEOUT);
}

/// The file that stores uses, owners and pins; `None` if its folder cannot be created.
fn index_file(settings: &TierSettings) -> Option<PathBuf> {
    let file = &settings.index_file;
    let made = file.parent().map_or(Ok(()), |folder| RealDisk.create_dir_all(folder));
    made.map_err(
        |error| tracing::warn!(%error, "cannot store owners and pins of the cache; they are lost at shutdown"),
    )
    .ok()?;
    Some(file.clone())
}

/// Opens the folder for a check of its contents. Files of another secret are ignored. Files of another encryption key
/// count as damaged.
pub(crate) fn folder(folder: &Path, settings: &TierSettings) -> Result<SsdTier, String> {
    let encryption_key =
        if settings.values.encrypt.folder { encryption_key(settings).map(|(key, _)| key) } else { None };
    files(folder, settings, &Secrets { secret: keys::secret(&RealDisk, &settings.secret_file)?, encryption_key })
}

/// Returns the encryption key; creates it at first use.
fn encryption_key(settings: &TierSettings) -> Option<(Vec<u8>, KeyLocation)> {
    let keychain = settings.keychain.then_some(&SystemKeychain as &dyn keys::Keychain);
    keys::encryption_key(&RealDisk, keychain, &settings.key_file)
        .map_err(|error| tracing::warn!(error, "cannot encrypt cache files: cannot read or create the key"))
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
    place: &RemoteLocation,
    settings: &TierSettings,
    secrets: &Secrets,
    time: &Arc<dyn cairn_tier::Clock>,
) -> Result<LowerTier, String> {
    let keys = secrets.of("place", settings.values.encrypt.remote)?.with_checksum(Checksum::Keyed);
    let files: Arc<dyn FileStore> = match place {
        RemoteLocation::Folder(folder) => {
            let name = Digest::of(folder.as_os_str().as_encoded_bytes()).hex();
            Arc::new(SharedFolder::new(folder).remembered_in(settings.shares_folder.join(name)))
        }
        RemoteLocation::Bucket { address, settings } => {
            let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
            Arc::new(Bucket::open(address, settings).map_err(|error| error.to_string())?)
        }
    };
    let options =
        RemoteOptions { packing: packing(settings.values.compress, Packing::Lossless), ..RemoteOptions::default() };
    let remote = RemoteTier::open(files, keys, options, Arc::clone(time), nonce).map_err(|error| error.to_string())?;
    // Every machine with the same secret and key belongs to this user. If one evicts a chunk, the others compute it
    // again.
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
    getrandom::fill(&mut nonce).expect("the system provided random numbers before");
    nonce
}

#[cfg(test)]
mod tests;
