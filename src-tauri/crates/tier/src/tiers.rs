//! All tiers of a daemon: what computed state is kept, where, for how long, and how it comes back.
//!
//! It outlives loaded models, so a model that is unloaded finds its chunks again. [`Tiers::find`], [`Tiers::restore`],
//! [`Tiers::store`] and [`Restoring::try_next`] only look at memory and are made for a thread that computes: the lock behind them is
//! never held across a read or a write. Each place below RAM has a thread that writes and removes (its hand) and a few that
//! read; one more keeps RAM within its budget.
//!
//! ```text
//! store -> RAM -> queue -> SSD -> remote        find -> Coverage -> restore -> try_next ... try_next -> End
//! ```
//!
//! **Invariants:** rows leave this module only as [`Restored`], which is made by comparing a chunk with what was asked for. A
//! restore yields its chunks in order, each once, and its end says why. No place ever holds more than its budget.

mod ahead;
mod aside;
mod forget;
mod hand;
mod keep;
mod queue;
mod read;
mod remember;
mod state;
mod status;
#[cfg(test)]
pub(crate) mod tests;
mod trace;
mod weigh;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::catalog::LOWER;
use crate::chunk::{Chunk, ChunkHead, ChunkId};
use crate::clock::Clock;
use crate::coverage::{Coverage, Held, Prefix};
use crate::identity::CHUNK_TOKENS;
use crate::index::Index;
use crate::owner::Owner;
use crate::policy::Aged;
use crate::remote::Remote;
use crate::ssd::Ssd;
use crate::tier::{Place, Tier};
use crate::worth::Worth;

pub use self::forget::{Context, Deleted, PinError};
pub use self::read::{End, Next, Restored, Restoring};
use self::state::State;
pub use self::status::{Dropped, Ends, Event, Flow, Gone, Health, PlaceStatus, Status};
pub use self::trace::{Trace, Why};

/// How long a shutdown may take to write what is only in RAM.
pub const FLUSH: Duration = Duration::from_secs(2);
/// How often threads without work look at the clock.
const TICK: Duration = Duration::from_millis(100);
/// Threads that read from each place below RAM: as many as a restore has chunks ahead, so that the place is busy while one of them
/// makes room for its rows.
const READERS: usize = 4;

/// A place below RAM, and what it may be used for.
#[derive(Clone)]
pub struct Lower {
    /// The place.
    pub tier: Arc<dyn Tier>,
    /// Bytes that it may hold, as the place counts them.
    pub budget_bytes: u64,
    /// What must stay free around it, where that is known.
    pub floor: Option<Floor>,
    /// Bytes that may be written to it on one day (UTC), to spare the disk.
    pub daily_bytes: Option<u64>,
    /// Whether this process may evict from it; where another owns it, this one only reads and adds. Asked at each scan. May block.
    pub owns: Arc<dyn Fn() -> bool + Send + Sync>,
    /// How often to look for what other processes changed.
    pub rescan: Option<Duration>,
    /// Bytes that all processes' chunks take there now, where others may add some; none where that cannot be told. Asked before a
    /// write. May block.
    pub taken: Option<Arc<dyn Fn() -> Option<u64> + Send + Sync>>,
}

impl Lower {
    /// A place of our own without other limits than its budget.
    pub fn new(tier: Arc<dyn Tier>, budget_bytes: u64) -> Self {
        Self { tier, budget_bytes, floor: None, daily_bytes: None, owns: Arc::new(|| true), rescan: None, taken: None }
    }

    /// A folder that other processes may use too.
    pub fn ssd(ssd: &Arc<Ssd>, budget_bytes: u64, floor_bytes: u64) -> Self {
        const RESCAN: Duration = Duration::from_secs(30);
        let (room, lock, all) = (Arc::clone(ssd), Arc::clone(ssd), Arc::clone(ssd));
        Self {
            floor: Some(Floor { bytes: floor_bytes, free: Arc::new(move || room.free_bytes().ok()) }),
            owns: Arc::new(move || lock.try_own()),
            rescan: Some(RESCAN),
            taken: Some(Arc::new(move || all.taken_bytes().ok())),
            ..Self::new(Arc::clone(ssd) as _, budget_bytes)
        }
    }

    /// A folder or a bucket elsewhere. Only where it is `ours` alone are chunks evicted from it; others keep to the budget by writing
    /// no more.
    pub fn remote(remote: &Arc<Remote>, budget_bytes: u64, ours: bool) -> Self {
        // Also how soon a place that is back is noticed.
        const RESCAN: Duration = Duration::from_secs(60);
        let tier: Arc<dyn Tier> = Arc::clone(remote) as _;
        Self { owns: Arc::new(move || ours), rescan: Some(RESCAN), ..Self::new(tier, budget_bytes) }
    }
}

/// Space that is left to others.
#[derive(Clone)]
pub struct Floor {
    /// Bytes that stay free.
    pub bytes: u64,
    /// Bytes that are free now; none where that cannot be told, and then nothing is written. May block.
    pub free: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
}

/// What [`Tiers::open`] needs.
pub struct Config {
    /// Bytes that RAM may hold. With none, only what waits to be written is held.
    pub ram_bytes: u64,
    /// Bytes that may wait to be written to one place.
    pub queue_bytes: u64,
    /// A folder on this machine.
    pub ssd: Option<Lower>,
    /// A folder or a bucket elsewhere.
    pub remote: Option<Lower>,
    /// Where owners, uses and pins are remembered, where chunks below RAM are kept. One process at a time can have it.
    pub index: Option<PathBuf>,
    /// Prefixes shorter than this are not written below RAM.
    pub min_tokens: u64,
    /// Prefixes that take less than this to compute are not written below RAM, where that is known.
    pub min_recompute: Duration,
    /// Bytes that may be written to a place on one day (UTC) as soon as a conversation pauses or goes on, so that it outlives a
    /// crash. Then, and for short prompts that came once, a chunk must have come back after a long pause. None sets no limit.
    pub early_bytes: Option<u64>,
    /// Whether chunks are brought back, and written below RAM, only where that is quicker than computing them. Proofs and tests want
    /// all that is kept, however cheap.
    pub weigh: bool,
    /// Chunks unused for longer are forgotten.
    pub ttl: Option<Duration>,
    /// Whether rounded rows may be used: only where somebody asked for them to be rounded.
    pub lossy: bool,
    /// What a chunk is worth.
    pub worth: Arc<dyn Worth>,
}

impl Config {
    /// RAM only.
    pub fn new(ram_bytes: u64) -> Self {
        const QUEUE_BYTES: u64 = 256 << 20;
        Self {
            ram_bytes,
            queue_bytes: if ram_bytes == 0 { QUEUE_BYTES } else { QUEUE_BYTES.min(ram_bytes / 4) },
            ssd: None,
            remote: None,
            index: None,
            min_tokens: 512,
            min_recompute: Duration::from_millis(150),
            early_bytes: None,
            weigh: true,
            ttl: Some(Duration::from_secs(30 * 24 * 3600)),
            lossy: false,
            worth: Arc::new(Aged),
        }
    }

    fn lower(&self, place: Place) -> Option<&Lower> {
        match place {
            Place::Ram => None,
            Place::Ssd => self.ssd.as_ref(),
            Place::Remote => self.remote.as_ref(),
        }
    }
}

/// Why a chunk is stored now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreWhy {
    /// Its prefix is used a second time: written down at once.
    Reused,
    /// Its conversation has been idle: written down at once.
    Idle,
    /// Its pages are needed for something else.
    Evicted,
    /// Its model is unloaded.
    Unload,
}

/// A chunk to keep.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The chunk.
    pub chunk: Chunk,
    /// Why now.
    pub why: StoreWhy,
    /// Whose it is, where somebody may ask for it to be deleted.
    pub owner: Option<Owner>,
    /// What computing it again would take.
    pub recompute: Duration,
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is in RAM, and waits to be written where that is due.
    New,
    /// Some place had it already.
    Already,
}

/// Why an offer was not kept. Nothing is lost but time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// RAM is full for the moment; room is being made.
    #[error("the RAM tier is full for the moment")]
    Full,
    /// It is larger than the RAM tier.
    #[error("the chunk does not fit into the RAM tier")]
    TooLarge,
    /// The chunk contradicts itself.
    #[error("the chunk contradicts itself: {0}")]
    Malformed(&'static str),
    /// The tiers are being closed.
    #[error("the tiers are closed")]
    Closed,
}

/// What threads share.
struct Inner {
    config: Config,
    clock: Arc<dyn Clock>,
    index: Option<Index>,
    state: Mutex<State>,
    /// Told when there is something to do.
    work: Condvar,
    /// Told when something was done.
    done: Condvar,
    /// Set by a refused offer, so that RAM is trimmed.
    ram_wanted: AtomicBool,
    /// See [`Tiers::pause`].
    paused: AtomicBool,
    /// See [`Tiers::answering`].
    answering: AtomicUsize,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding the lock: what tiers do runs without it")
    }

    /// Waits for work, but at most until the next look at the clock.
    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.work.wait_timeout(state, TICK).expect("as in lock").0
    }
}

/// As long as this lives, somebody computes an answer.
pub struct Answering(Arc<Inner>);

impl std::fmt::Debug for Answering {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answering").finish_non_exhaustive()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See the module.
pub struct Tiers {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Tiers {
    /// Opens the tiers and begins to look what is in them; what a place has is found as soon as it has been scanned.
    ///
    /// # Errors
    /// Where the system gives no threads.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let (index, remembered) = remember::open(&config);
        let mut state = State::new(&config, remembered);
        if let Some(index) = &index {
            state.recall_days(index);
        }
        let inner = Arc::new(Inner {
            config,
            clock,
            index,
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
            ram_wanted: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            answering: AtomicUsize::new(0),
        });
        let tiers = Self { inner, threads: Mutex::default() };
        tiers.start("tier-keeper".to_owned(), keep::run)?;
        for place in LOWER.into_iter().filter(|&place| tiers.inner.config.lower(place).is_some()) {
            tiers.start(format!("tier-{place}-write"), move |inner| hand::run(inner, place))?;
            for _ in 0..READERS {
                tiers.start(format!("tier-{place}-read"), move |inner| read::run(inner, place))?;
            }
        }
        Ok(tiers)
    }

    /// What is kept of a prefix. Touches nothing but memory.
    pub fn find(&self, prefix: &Prefix) -> Coverage {
        self.find_after(prefix, Held::default())
    }

    /// As [`Tiers::find`], for a reader who has some of it: the first so many tokens, or what [`Held`] says. That need not be kept
    /// here.
    pub fn find_after(&self, prefix: &Prefix, held: impl Into<Held>) -> Coverage {
        let chains = prefix.chains();
        let state = self.inner.lock();
        let now = self.inner.clock.now();
        let remote = self.inner.config.remote.as_ref().filter(|_| !state.is_away(Place::Remote, now));
        // What is being removed is there, but not for anybody.
        let leaving: HashSet<ChunkId> = state.hand(Place::Remote).leaving().collect();
        let maybe = |id: &ChunkId| !leaving.contains(id) && remote.is_some_and(|lower| lower.tier.may_hold(id));
        Coverage::of(&state.catalog, prefix, &chains, held.into(), |place| state.is_away(place, now), maybe)
    }

    /// Begins to bring back the rows of these positions, whose end [`Coverage::longest`] gave. What has not arrived after `within` is
    /// given up. Dropping the result cancels.
    pub fn restore(&self, coverage: &Coverage, tokens: std::ops::Range<usize>, within: Duration) -> Restoring {
        Restoring::begin(&self.inner, coverage, tokens, within)
    }

    /// Notes that rows of a prefix were used where they still lay, so that what is kept of them counts as used.
    pub fn touch(&self, coverage: &Coverage) {
        let steps = coverage.steps(0..coverage.tokens());
        let (now, unix_s) = (self.inner.clock.now(), self.inner.clock.unix_s());
        let mut state = self.inner.lock();
        // The last first, so that a prefix is never older than what continues it.
        for step in steps.iter().rev() {
            state.used(&self.inner.config, &step.id, now, unix_s, true);
        }
        drop(state);
        self.inner.work.notify_all();
    }

    /// Whether a chunk is kept in some place.
    pub fn holds(&self, id: &ChunkId) -> bool {
        self.inner.lock().catalog.places(id).next().is_some()
    }

    /// Whether rounded rows may be used.
    pub fn takes_lossy(&self) -> bool {
        self.inner.config.lossy
    }

    /// What tells the time here.
    pub fn clock(&self) -> &dyn Clock {
        self.inner.clock.as_ref()
    }

    /// Has nobody copy rows for these tiers, and nothing written below RAM, until they are let go on. What is kept can be had all
    /// the while.
    pub fn pause(&self, paused: bool) {
        self.inner.paused.store(paused, Ordering::Relaxed);
        self.inner.work.notify_all();
    }

    /// Has what is kept written only in time that nobody else wants, as long as not too much waits and the result lives.
    pub fn answering(&self) -> Answering {
        self.inner.answering.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(&self.inner))
    }

    /// Whether a chunk of this many bytes would be kept now, so that nobody copies rows in vain.
    pub fn has_room(&self, bytes: u64) -> bool {
        !self.inner.paused.load(Ordering::Relaxed) && self.inner.lock().ram_fits(&self.inner.config, bytes)
    }

    /// Whether what is to be written down soon may be offered: else much waits to be written already, and what comes on top of it
    /// could be dropped from the queue.
    pub fn keeps_up(&self) -> bool {
        let state = self.inner.lock();
        let waiting = |place| state.hand(place).queue.bytes();
        let writable = |place| state.hand(place).is_writable(self.inner.clock.now());
        state.below_ram().is_none_or(|place| waiting(place) <= self.inner.config.queue_bytes / 2 || !writable(place))
    }

    /// Keeps a chunk. Never blocks: it is put into RAM, and written below by others when that is due.
    ///
    /// # Errors
    /// Why it is not kept.
    pub fn store(&self, offer: Offer) -> Result<Kept, Refused> {
        check(&offer.chunk)?;
        let (now, unix_s) = (self.inner.clock.now(), self.inner.clock.unix_s());
        let mut state = self.inner.lock();
        let result = state.store(&self.inner.config, offer, now, unix_s);
        drop(state);
        if result == Err(Refused::Full) {
            self.inner.ram_wanted.store(true, Ordering::Relaxed);
        }
        self.inner.work.notify_all();
        result
    }

    /// Gives a place this budget from now on; what is too much leaves it soon.
    pub fn set_budget(&self, place: Place, bytes: u64) {
        self.inner.lock().catalog.set_budget(place, bytes);
        self.inner.work.notify_all();
    }

    /// Waits until every place has been scanned once and all that is due has been written, for at most this long. Returns whether it
    /// came to that.
    pub fn settle(&self, within: Duration) -> bool {
        let state = self.inner.lock();
        self.inner.work.notify_all();
        let settled = self.inner.done.wait_timeout_while(state, within, |state| !state.is_settled());
        !settled.expect("as in lock").1.timed_out()
    }

    /// Writes what is only in RAM, the most wanted first, and ends all threads, in at most this time. What is still being read or
    /// written then is left behind.
    pub fn close(self, within: Duration) {
        self.shut_down(within);
    }

    /// As [`Tiers::close`], for whoever shares the tiers: from then on, nothing is kept and nothing is found.
    pub fn shut_down(&self, within: Duration) {
        let mut state = self.inner.lock();
        if state.closing.is_some() {
            return;
        }
        state.begin_close(&self.inner.config, self.inner.clock.now());
        self.inner.work.notify_all();
        let waited = self.inner.done.wait_timeout_while(state, within, |state| state.threads > 0);
        let mut state = waited.expect("as in lock").0;
        state.closing = Some(state::Closing::Now);
        let all_left = state.threads == 0;
        drop(state);
        self.inner.work.notify_all();
        self.inner.write_index(true);
        self.inner.write_days();
        let threads = std::mem::take(&mut *self.threads.lock().expect("as in lock"));
        if all_left {
            // They have nothing left to do but end, and to let go of the places.
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
                self.threads.lock().expect("as in lock").push(thread);
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

/// Calls a tier; none where it panics, so that its thread lives on.
fn calmly<T>(call: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).ok()
}

/// Makes sure that a chunk is whole in itself.
fn check(chunk: &Chunk) -> Result<(), Refused> {
    let ChunkHead { keys, first_position, flags, .. } = chunk.head.as_ref();
    let whole = keys.len() == CHUNK_TOKENS;
    let facts = [
        ((1..=CHUNK_TOKENS).contains(&keys.len()), "it has no tokens, or too many"),
        (whole != flags.tail, "only a tail is not whole"),
        (first_position % CHUNK_TOKENS as u64 == 0, "it begins between two chunks"),
        (chunk.head.payload_bytes() == chunk.payload.len() as u64, "its sections are not its payload"),
    ];
    facts.iter().find(|(holds, _)| !holds).map_or(Ok(()), |&(_, why)| Err(Refused::Malformed(why)))
}
