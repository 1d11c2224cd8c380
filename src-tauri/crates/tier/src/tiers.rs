//! All tiers of a daemon: which chunks are stored where, for how long, and how they are restored.
//!
//! The tiers outlive loaded models, so a model finds its chunks again after an unload. [`Tiers::lookup`],
//! [`Tiers::restore`], [`Tiers::store`] and [`Restore::try_next`] access only memory and are made for a computing
//! thread: no I/O happens while their lock is held. Each tier below RAM has one thread that writes and removes, and a
//! few that read. One more thread keeps RAM within its budget.
//!
//! ```text
//! store -> RAM -> queue -> SSD -> remote        find -> Coverage -> restore -> try_next ... try_next -> RestoreEnd
//! ```
//!
//! **Invariants:** rows leave this module only as [`RestoredChunk`], which is made by comparing a chunk with the
//! request. A restore yields its chunks in order, each once, and its end has a reason. No tier ever exceeds its
//! budget.

mod background;
mod commands;
mod cost_model;
mod counters;
mod lower;
mod pace;
mod persist;
mod prefetch;
mod ram;
mod removed_chunks;
mod restore;
mod restore_job;
mod save;
mod state;
mod status;
#[cfg(test)]
pub(crate) mod tests;
mod trace;
mod writer;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::catalog::LOWER_TIERS;
use crate::chunk::{Chunk, ChunkHead, ChunkId};
use crate::clock::Clock;
use crate::coverage::{Coverage, Prefix, ResidentRows};
use crate::identity::CHUNK_TOKENS;
use crate::index::{Index, IndexError};
use crate::owner::Owner;
use crate::policy::EvictionPolicy;
use crate::remote::RemoteTier;
use crate::ssd::SsdTier;
use crate::tier::{Tier, TierKind};
use crate::weighted_lru::WeightedLru;

pub use self::commands::{Deletion, PinError, StoredPrefix};
pub use self::counters::{DroppedWrites, Event, Health, RestoreCounts, TierCounters};
pub use self::removed_chunks::RemovalReason;
pub use self::restore::{Restore, RestorePoll};
pub use self::restore_job::{RestoreEnd, RestoredChunk, Waker};
use self::state::State;
pub use self::status::{Status, TierStatus};
pub use self::trace::{LookupTrace, MissReason};

/// Default time limit for writing unsaved chunks at shutdown.
pub const FLUSH: Duration = Duration::from_secs(2);
/// How often an idle thread checks the clock.
const IDLE_TICK: Duration = Duration::from_secs(1);
/// How often the writer checks the clock while it has queued work.
const BUSY_TICK: Duration = Duration::from_millis(100);
/// Reader threads per tier below RAM. As many as a restore reads ahead, so that the tier stays busy while one of them
/// allocates memory.
const READERS_PER_TIER: usize = 4;

/// A tier below RAM, with its limits.
#[derive(Clone)]
pub struct LowerTier {
    /// The tier.
    pub tier: Arc<dyn Tier>,
    /// Maximum size in bytes.
    pub budget_bytes: u64,
    /// Minimum free space around the tier, if it can be determined.
    pub min_free: Option<MinFreeSpace>,
    /// Maximum bytes written per day (UTC), to spare the disk.
    pub daily_write_bytes: Option<u64>,
    /// Returns whether this process may evict. Otherwise it only reads and adds chunks. Called at each scan; may
    /// block.
    pub is_owner: Arc<dyn Fn() -> bool + Send + Sync>,
    /// How often to scan for changes of other processes.
    pub rescan_interval: Option<Duration>,
    /// Returns the current size of all processes' chunks, if other processes may add chunks. Called before a write;
    /// may block.
    pub used_bytes: Option<Arc<dyn Fn() -> Option<u64> + Send + Sync>>,
}

impl LowerTier {
    /// A tier that no other process uses, limited only by its budget.
    pub fn new(tier: Arc<dyn Tier>, budget_bytes: u64) -> Self {
        Self {
            tier,
            budget_bytes,
            min_free: None,
            daily_write_bytes: None,
            is_owner: Arc::new(|| true),
            rescan_interval: None,
            used_bytes: None,
        }
    }

    /// An SSD folder that other processes may use too.
    pub fn ssd(ssd: &Arc<SsdTier>, budget_bytes: u64, floor_bytes: u64) -> Self {
        const RESCAN: Duration = Duration::from_secs(30);
        let (room, lock, all) = (Arc::clone(ssd), Arc::clone(ssd), Arc::clone(ssd));
        Self {
            min_free: Some(MinFreeSpace { bytes: floor_bytes, free: Arc::new(move || room.free_bytes().ok()) }),
            is_owner: Arc::new(move || lock.try_acquire_ownership()),
            rescan_interval: Some(RESCAN),
            used_bytes: Some(Arc::new(move || all.used_bytes().ok())),
            ..Self::new(Arc::clone(ssd) as _, budget_bytes)
        }
    }

    /// A remote tier. Chunks are evicted from it only if it is `ours` alone; otherwise this process just stops writing
    /// when the budget is used.
    pub fn remote(remote: &Arc<RemoteTier>, budget_bytes: u64, ours: bool) -> Self {
        // This is also the delay until a recovered server is noticed.
        const RESCAN: Duration = Duration::from_secs(60);
        let tier: Arc<dyn Tier> = Arc::clone(remote) as _;
        Self { is_owner: Arc::new(move || ours), rescan_interval: Some(RESCAN), ..Self::new(tier, budget_bytes) }
    }
}

/// Disk space that must stay free.
#[derive(Clone)]
pub struct MinFreeSpace {
    /// Minimum free space.
    pub bytes: u64,
    /// Returns the current free space; without it nothing is written. May block.
    pub free: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
}

/// Configuration of [`Tiers::open`].
pub struct Config {
    /// Budget of RAM. With 0, RAM holds only chunks that wait to be written.
    pub ram_bytes: u64,
    /// Maximum size of a write queue.
    pub queue_bytes: u64,
    /// The SSD tier.
    pub ssd: Option<LowerTier>,
    /// The remote tier.
    pub remote: Option<LowerTier>,
    /// Database of owners, usage and pins of the chunks below RAM. Only one process can open it.
    pub index_path: Option<PathBuf>,
    /// Shorter prefixes are not written below RAM, unless they take [`LONG_RECOMPUTE`](crate::LONG_RECOMPUTE) to compute.
    pub min_tokens: u64,
    /// Prefixes that are faster to compute are not written below RAM, if their time is known.
    pub min_recompute: Duration,
    /// Maximum bytes per day (UTC) of chunks that are written soon after an answer, so that they survive a crash. Prompts
    /// that were sent once use at most half of it, and only if they take long to compute. Other chunks are written only if
    /// the eviction policy decides so. `None` means no limit.
    pub early_write_bytes: Option<u64>,
    /// Whether chunks are restored, and written below RAM, only if that is faster than computing them. Some tests and
    /// benchmarks disable it.
    pub use_cost_model: bool,
    /// Chunks that were unused for longer are deleted.
    pub ttl: Option<Duration>,
    /// Whether rounded rows may be used, which the user must have enabled.
    pub allow_lossy: bool,
    /// The eviction policy.
    pub eviction_policy: Arc<dyn EvictionPolicy>,
}

impl Config {
    /// A configuration with RAM only.
    pub fn new(ram_bytes: u64) -> Self {
        const QUEUE_BYTES: u64 = 256 << 20;
        Self {
            ram_bytes,
            queue_bytes: if ram_bytes == 0 { QUEUE_BYTES } else { QUEUE_BYTES.min(ram_bytes / 4) },
            ssd: None,
            remote: None,
            index_path: None,
            min_tokens: 512,
            min_recompute: Duration::from_millis(150),
            early_write_bytes: None,
            use_cost_model: true,
            ttl: Some(Duration::from_secs(30 * 24 * 3600)),
            allow_lossy: false,
            eviction_policy: Arc::new(WeightedLru),
        }
    }

    fn lower(&self, tier: TierKind) -> Option<&LowerTier> {
        match tier {
            TierKind::Ram => None,
            TierKind::Ssd => self.ssd.as_ref(),
            TierKind::Remote => self.remote.as_ref(),
        }
    }
}

/// Why a chunk is stored now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreReason {
    /// The prefix of the chunk is used a second time: written at once.
    Reused,
    /// The conversation of the chunk is idle: written at once.
    Idle,
    /// The pages of the chunk are needed for other sequences.
    Evicted,
    /// The model of the chunk is being unloaded.
    Unload,
}

/// A chunk to store.
#[derive(Clone, Debug)]
pub struct StoreRequest {
    /// The chunk.
    pub chunk: Chunk,
    /// Why it is stored now.
    pub reason: StoreReason,
    /// Owner, if the chunk has one.
    pub owner: Option<Owner>,
    /// Estimated time to recompute the chunk.
    pub recompute: Duration,
}

/// Result of storing a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// The chunk is in RAM, and will be written if it is due.
    Stored,
    /// A tier already had the chunk.
    AlreadyStored,
}

/// Reason why a chunk was not stored. Only time is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// RAM is full at the moment; eviction has started.
    #[error("the RAM tier is full at the moment")]
    Full,
    /// The chunk is larger than the RAM tier.
    #[error("the chunk does not fit into the RAM tier")]
    TooLarge,
    /// The chunk is inconsistent.
    #[error("the chunk is inconsistent: {0}")]
    Malformed(&'static str),
    /// The tiers are shutting down.
    #[error("the tiers are shut down")]
    Closed,
}

/// State shared by all threads.
struct Inner {
    config: Config,
    clock: Arc<dyn Clock>,
    index: Option<Index>,
    /// Held from the choice of rows until they are in the index. Otherwise an older row could overwrite a newer one.
    index_writes: Mutex<()>,
    /// Why the index is not used.
    index_error: Option<String>,
    state: Mutex<State>,
    /// Notified when there is work.
    work: Condvar,
    /// Notified when work was done.
    done: Condvar,
    /// Set when a chunk is rejected, so that RAM is trimmed.
    ram_trim_requested: AtomicBool,
    /// See [`Tiers::set_paused`].
    paused: AtomicBool,
    /// See [`Tiers::begin_generation`].
    active_generations: AtomicUsize,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// While this exists, an answer is being generated.
pub struct GenerationGuard(Arc<Inner>);

impl std::fmt::Debug for GenerationGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GenerationGuard").finish_non_exhaustive()
    }
}

impl Drop for GenerationGuard {
    fn drop(&mut self) {
        self.0.active_generations.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All tiers of a daemon, with their threads.
pub struct Tiers {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Tiers {
    /// Opens the tiers and starts to scan them. A tier's chunks are found once it was scanned.
    ///
    /// # Errors
    /// If no threads can be created.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let (index, unscanned_rows) = persist::open(&config);
        let is_newer = matches!(index, Err(IndexError::Newer(_)));
        // Without the last uses and pins in the index, chunks in use would look expired.
        let config = Config { ttl: config.ttl.filter(|_| !is_newer), ..config };
        let index_error = index.as_ref().err().map(ToString::to_string);
        let index = index.ok().flatten();
        let mut state = State::new(&config, unscanned_rows);
        if let Some(index) = &index {
            state.load_daily_writes(index);
        }
        let inner = Arc::new(Inner {
            config,
            clock,
            index,
            index_writes: Mutex::default(),
            index_error,
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
            ram_trim_requested: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            active_generations: AtomicUsize::new(0),
        });
        let tiers = Self { inner, threads: Mutex::default() };
        tiers.start("tier-keeper".to_owned(), ram::run)?;
        for tier in LOWER_TIERS.into_iter().filter(|&tier| tiers.inner.config.lower(tier).is_some()) {
            tiers.start(format!("tier-{tier}-write"), move |inner| writer::run(inner, tier))?;
            for _ in 0..READERS_PER_TIER {
                tiers.start(format!("tier-{tier}-read"), move |inner| restore::run(inner, tier))?;
            }
        }
        Ok(tiers)
    }

    /// Looks up a prefix. Accesses only memory.
    pub fn lookup(&self, prefix: &Prefix) -> Coverage {
        self.lookup_after(prefix, ResidentRows::default())
    }

    /// As [`Tiers::lookup`], for a reader that has some rows already. Those need not be stored.
    pub fn lookup_after(&self, prefix: &Prefix, held: impl Into<ResidentRows>) -> Coverage {
        let chains = prefix.chains();
        let state = self.inner.lock();
        let now = self.inner.clock.now();
        let remote = self.inner.config.remote.as_ref().filter(|_| !state.is_unavailable(TierKind::Remote, now));
        // Chunks that are being removed are not found.
        let leaving: HashSet<ChunkId> = state.lower(TierKind::Remote).pending_removals().collect();
        let maybe = |id: &ChunkId| !leaving.contains(id) && remote.is_some_and(|lower| lower.tier.may_contain(id));
        Coverage::of(&state.catalog, prefix, &chains, held.into(), |tier| state.is_unavailable(tier, now), maybe)
    }

    /// Starts to restore the rows of these positions, whose end [`Coverage::longest_prefix`] returned. The rest is
    /// abandoned after `within`. Dropping the result cancels the restore.
    pub fn restore(&self, coverage: &Coverage, tokens: std::ops::Range<usize>, within: Duration) -> Restore {
        Restore::begin(&self.inner, coverage, tokens, within)
    }

    /// Records that rows of a prefix were used from pages, so that the stored chunks count as used.
    pub fn touch(&self, coverage: &Coverage) {
        let steps = coverage.steps(0..coverage.tokens());
        let (now, unix_s) = (self.inner.clock.now(), self.inner.clock.unix_s());
        let mut state = self.inner.lock();
        // Last chunk first, so that a prefix is never older than its continuation.
        for step in steps.iter().rev() {
            state.record_use(&self.inner.config, &step.id, now, unix_s, true);
        }
        drop(state);
        self.inner.work.notify_all();
    }

    /// Returns whether a tier has the chunk.
    pub fn contains(&self, id: &ChunkId) -> bool {
        self.inner.lock().catalog.tiers_of(id).next().is_some()
    }

    /// Returns whether rounded rows may be used.
    pub fn allows_lossy(&self) -> bool {
        self.inner.config.allow_lossy
    }

    /// Returns the clock.
    pub fn clock(&self) -> &dyn Clock {
        self.inner.clock.as_ref()
    }

    /// Pauses or resumes storing: while paused, [`Tiers::has_room`] returns `false` and nothing is written below RAM.
    /// Lookups and restores continue.
    pub fn set_paused(&self, paused: bool) {
        self.inner.paused.store(paused, Ordering::Relaxed);
        self.inner.work.notify_all();
    }

    /// Lowers the priority of writes while the returned guard exists, unless the write queue is nearly full.
    pub fn begin_generation(&self) -> GenerationGuard {
        self.inner.active_generations.fetch_add(1, Ordering::Relaxed);
        GenerationGuard(Arc::clone(&self.inner))
    }

    /// Returns whether a chunk of this size would be stored now, so that callers copy no rows in vain.
    pub fn has_room(&self, bytes: u64) -> bool {
        !self.inner.paused.load(Ordering::Relaxed) && self.inner.lock().ram_fits(&self.inner.config, bytes)
    }

    /// Returns whether non-urgent chunks may be stored. Otherwise the write queue is half full, and more chunks could
    /// be dropped from it.
    pub fn has_write_capacity(&self) -> bool {
        let state = self.inner.lock();
        let waiting = |tier| state.lower(tier).queue.bytes();
        let writable = |tier| state.lower(tier).is_writable(self.inner.clock.now());
        state
            .first_lower_tier()
            .is_none_or(|tier| waiting(tier) <= self.inner.config.queue_bytes / 2 || !writable(tier))
    }

    /// Stores a chunk. Never blocks: the chunk goes to RAM, and other threads write it below RAM if it is due.
    ///
    /// # Errors
    /// The reason why the chunk is not stored.
    pub fn store(&self, offer: StoreRequest) -> Result<StoreOutcome, StoreError> {
        check(&offer.chunk)?;
        let (now, unix_s) = (self.inner.clock.now(), self.inner.clock.unix_s());
        let mut state = self.inner.lock();
        let result = state.store(&self.inner.config, offer, now, unix_s);
        drop(state);
        if result == Err(StoreError::Full) {
            self.inner.ram_trim_requested.store(true, Ordering::Relaxed);
        }
        self.inner.work.notify_all();
        result
    }

    /// Makes all threads check the clock, which a test has changed.
    #[cfg(test)]
    pub(crate) fn check_clock(&self) {
        self.inner.work.notify_all();
    }

    /// Changes a tier's budget. Excess chunks are evicted soon.
    pub fn set_budget(&self, tier: TierKind, bytes: u64) {
        self.inner.lock().catalog.set_budget(tier, bytes);
        self.inner.work.notify_all();
    }

    /// Waits until every tier was scanned and all due chunks are written, at most for `within`. Returns whether that
    /// happened.
    pub fn wait_idle(&self, within: Duration) -> bool {
        let mut state = self.inner.lock();
        self.inner.work.notify_all();
        !self.inner.done.wait_while_for(&mut state, |state| !state.is_settled(), within).timed_out()
    }

    /// Writes the chunks that only RAM has, best first, and ends all threads, at most for `within`. Reads and writes
    /// that are still running are abandoned.
    pub fn close(self, within: Duration) {
        self.shut_down(within);
    }

    /// As [`Tiers::close`], for shared tiers: afterwards nothing is stored or found.
    pub fn shut_down(&self, within: Duration) {
        let mut state = self.inner.lock();
        if state.closing.is_some() {
            return;
        }
        state.begin_close(&self.inner.config, self.inner.clock.now());
        self.inner.work.notify_all();
        self.inner.done.wait_while_for(&mut state, |state| state.threads > 0, within);
        state.closing = Some(state::ShutdownPhase::Now);
        let all_left = state.threads == 0;
        drop(state);
        self.inner.work.notify_all();
        self.inner.write_index(true);
        self.inner.write_daily_totals();
        let threads = std::mem::take(&mut *self.threads.lock());
        if all_left {
            // All threads have finished, so joining them does not block.
            threads.into_iter().for_each(|thread| drop(thread.join()));
        }
    }

    fn start(&self, name: String, run: impl FnOnce(&Inner) + Send + 'static) -> std::io::Result<()> {
        let inner = Arc::clone(&self.inner);
        self.inner.lock().threads += 1;
        let started = std::thread::Builder::new().name(name).spawn(move || {
            run(&inner);
            inner.lock().threads -= 1;
            inner.done.notify_all();
        });
        match started {
            Ok(thread) => {
                self.threads.lock().push(thread);
                Ok(())
            }
            Err(error) => {
                self.inner.lock().threads -= 1;
                Err(error)
            }
        }
    }
}

impl Drop for Tiers {
    fn drop(&mut self) {
        self.shut_down(FLUSH);
    }
}

/// Calls a tier and converts a panic into `None`, so that the thread survives.
fn catch_panic<T>(call: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).ok()
}

/// Verifies that a chunk is consistent.
fn check(chunk: &Chunk) -> Result<(), StoreError> {
    let ChunkHead { keys, first_position, flags, .. } = chunk.head.as_ref();
    let whole = keys.len() == CHUNK_TOKENS;
    let stats = [
        ((1..=CHUNK_TOKENS).contains(&keys.len()), "it has no tokens or too many"),
        (whole != flags.tail, "a chunk that is not a tail must have 256 tokens"),
        (first_position % CHUNK_TOKENS as u64 == 0, "its first position is not a multiple of 256"),
        (chunk.head.payload_bytes() == chunk.payload.len() as u64, "its sections do not match its payload"),
    ];
    stats.iter().find(|(holds, _)| !holds).map_or(Ok(()), |&(_, why)| Err(StoreError::Malformed(why)))
}
