//! The download of one blob: from any of several sources, in parallel ranges, over as many runs of the program as it
//! takes, until its bytes have its digest.
//!
//! ```text
//!  streams --take--> Plan            what to fetch, pure          (plan, health, state)
//!     |                              which source to ask
//!     | bytes, paid for in Credits
//!     v
//!  writer -> keeper (sync, journal)  three threads                (spool)
//!     `----> hasher                  in order, behind the streams
//! ```
//!
//! **Invariants:** what the journal says is on the disk; at most [`Config::unkept_bytes`] and one chunk of each stream is
//! not in it, for all downloads of the process together; a blob is ready only after its bytes, read back, had its digest.
//! Trouble with a source is a [`Notice`] while there is another way, and a [`DownloadError`] when there is none.

mod error;
mod health;
mod plan;
mod room;
mod speed;
mod spool;
mod state;
mod stream;
mod suspects;
mod throttle;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, Library, Ranges, StagedBlob, Staging, StagingError};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::Instant;

use crate::BlobSource;
pub use error::{DownloadError, Notice};
use health::Health;
pub(crate) use room::Room;
pub(crate) use spool::Credits;
use spool::Spool;
use state::State;
use stream::Shared;
use suspects::Suspects;
pub(crate) use throttle::Throttle;

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(60);

/// How downloads behave. The defaults are for a home connection.
#[derive(Debug, Clone)]
pub struct Config {
    /// Streams of one download.
    pub streams: usize,
    /// Downloads that run at the same time, those of [`crate::Priority::Now`] not counted.
    pub at_once: usize,
    /// The most bytes that one request asks for.
    pub segment_bytes: u64,
    /// A range is split between two streams only where both get this many bytes.
    pub split_bytes: u64,
    /// The most bytes, of all downloads together, that a crash may lose. One chunk of each stream comes on top.
    pub unkept_bytes: u32,
    /// A stream from which nothing comes for so long is opened anew.
    pub stall: Duration,
    /// So many times in a row, before it is an error.
    pub stall_tries: u32,
    /// A stream that is eight times slower than the others after so long is opened anew.
    pub slow_after: Duration,
    /// Idle streams take from one that would take longer than this.
    pub steal_after: Duration,
    /// Failures in a row after which a source is given up.
    pub tries: u32,
    /// How long a source is left alone after its first failure; twice as long after each further one.
    pub backoff: Duration,
    /// The longest it is left alone, unless it asks for more.
    pub longest_backoff: Duration,
    /// The longest wait that a source may ask for.
    pub patience: Duration,
    /// How often to look whether another process is done.
    pub poll: Duration,
    /// Bytes of the disk that stay free.
    pub reserve_bytes: u64,
    /// The most bytes per second, of all downloads together.
    pub cap_bytes_per_s: Option<u64>,
    /// Spreads the waits of many clients.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            streams: 8,
            at_once: 3,
            segment_bytes: 64 << 20,
            split_bytes: 1 << 20,
            unkept_bytes: 12 << 20,
            stall: Duration::from_secs(30),
            stall_tries: 10,
            slow_after: Duration::from_secs(10),
            steal_after: Duration::from_secs(1),
            tries: 6,
            backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(60),
            patience: Duration::from_secs(600),
            poll: Duration::from_millis(500),
            reserve_bytes: 512 << 20,
            cap_bytes_per_s: None,
            seed: 0,
        }
    }
}

/// How far a download has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobProgress {
    /// What is being done.
    pub phase: Phase,
    /// Bytes of the blob.
    pub size_bytes: u64,
    /// Bytes that are here. Never fewer than before, except after a mismatch: see `attempt`.
    pub held_bytes: u64,
    /// Bytes from the first on that are written and went into the digest: they can be read already.
    pub prefix_bytes: u64,
    /// Over the last seconds.
    pub bytes_per_s: u64,
    /// At this speed; `None` while nothing comes.
    pub eta: Option<Duration>,
    /// 1, and one more each time that what came was wrong and everything is fetched again.
    pub attempt: u32,
    /// Who was asked last.
    pub host: Option<String>,
    /// Requests that are open.
    pub streams: usize,
}

/// What is being done for a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It waits for its turn.
    Queued,
    /// Bytes come, or are asked for.
    Fetching,
    /// All bytes are here, and the digest is being computed to the end.
    Verifying,
    /// Another process fetches it, and is waited for.
    Elsewhere,
    /// Somebody paused it.
    Paused,
    /// It failed.
    Failed,
    /// It is there.
    Done,
}

impl BlobProgress {
    pub(crate) fn new(size_bytes: u64) -> Self {
        Self {
            phase: Phase::Queued,
            size_bytes,
            held_bytes: 0,
            prefix_bytes: 0,
            bytes_per_s: 0,
            eta: None,
            attempt: 1,
            host: None,
            streams: 0,
        }
    }
}

/// A blob that is here, whole and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Which.
    pub digest: Digest,
    /// Its size.
    pub size_bytes: u64,
    /// Its file, in the library or among those that are ready to be published.
    pub path: PathBuf,
    /// It was here before.
    pub present: bool,
    /// Hosts that sent wrong bytes on the way.
    pub wrong_hosts: Vec<String>,
}

/// What all downloads into a library share.
pub(crate) struct Place {
    pub(crate) library: Library,
    pub(crate) staging: Staging,
    pub(crate) room: Arc<Room>,
    pub(crate) credits: Arc<Credits>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) config: Arc<Config>,
}

/// What is asked of one.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) digest: Digest,
    pub(crate) size_bytes: u64,
    pub(crate) sources: Vec<Arc<dyn BlobSource>>,
}

/// How a download reaches those who watch it.
pub(crate) struct Reins {
    pub(crate) progress: Arc<watch::Sender<BlobProgress>>,
    /// Becomes true when it is to end, keeping what came.
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) tell: Box<dyn Fn(Notice) + Send + Sync>,
}

/// Why a run of a download ended without an error.
#[derive(Debug)]
pub(crate) enum Outcome {
    Ready(Ready),
    Stopped,
}

/// How one attempt ended.
enum Attempt {
    Hashed(Digest, StagedBlob, Vec<Ranges>),
    Stopped,
}

/// Fetches a blob until it is ready, there is no way to, or it is told to stop.
pub(crate) async fn fetch(place: &Arc<Place>, wanted: &Wanted, reins: &mut Reins) -> Result<Outcome, DownloadError> {
    let ended = attempts(place, wanted, reins).await;
    place.room.give_back(&wanted.digest);
    ended.map_err(|error| place.room.explain(error))
}

async fn attempts(place: &Arc<Place>, wanted: &Wanted, reins: &mut Reins) -> Result<Outcome, DownloadError> {
    let mut suspects = Suspects::default();
    let mut told = 0;
    let tell_wrong = |suspects: &Suspects, told: &mut usize, reins: &Reins| {
        for host in hosts(wanted, suspects.wrong.get(*told..).unwrap_or_default()) {
            (reins.tell)(Notice::WrongBytes { host, digest: wanted.digest });
        }
        *told = suspects.wrong.len();
    };
    // Each failed attempt but the first tells of one more source that it is wrong.
    loop {
        let Some(staged) = claim(place, wanted, reins).await? else {
            let stopped = *reins.stop.borrow();
            return Ok(if stopped { Outcome::Stopped } else { Outcome::Ready(present(place, wanted)?) });
        };
        let earlier = staged.held().clone();
        let left_bytes = wanted.size_bytes - earlier.total_bytes();
        place.room.set_aside(wanted.digest, left_bytes)?;
        let (got, staged, supplied) = match attempt(place, wanted, reins, staged, &suspects).await? {
            Attempt::Hashed(got, staged, supplied) => (got, staged, supplied),
            Attempt::Stopped => return Ok(Outcome::Stopped),
        };
        let right = got == wanted.digest;
        let (verdict, ended) = blocking(move || {
            let file = staged.file();
            if right {
                suspects.right(&*file)?;
                return Ok((suspects, Ok(staged.finish()?)));
            }
            let again = suspects.mismatch(&*file, &supplied, &earlier)?;
            staged.discard()?;
            Ok((suspects, Err(again)))
        })
        .await?;
        suspects = verdict;
        tell_wrong(&suspects, &mut told, reins);
        match ended {
            Ok(path) => {
                let wrong_hosts = hosts(wanted, &suspects.wrong);
                let (digest, size_bytes) = (wanted.digest, wanted.size_bytes);
                return Ok(Outcome::Ready(Ready { digest, size_bytes, path, present: false, wrong_hosts }));
            }
            Err(Some(again)) => {
                let again = hosts(wanted, &[again]).join("");
                (reins.tell)(Notice::Mismatch { again });
                reins.progress.send_modify(|progress| {
                    progress.attempt += 1;
                    (progress.held_bytes, progress.prefix_bytes) = (0, 0);
                });
            }
            Err(None) => {
                let hosts = hosts(wanted, &suspects.wrong);
                return Err(DownloadError::Mismatch { want: wanted.digest, got, hosts });
            }
        }
    }
}

/// The blob, to be fetched by this process alone; `None` when it is there already, or it is time to stop.
async fn claim(place: &Arc<Place>, wanted: &Wanted, reins: &mut Reins) -> Result<Option<StagedBlob>, DownloadError> {
    let mut waiting = false;
    loop {
        let (in_place, digest, size_bytes) = (Arc::clone(place), wanted.digest, wanted.size_bytes);
        let claimed = blocking(move || {
            // The claim first: who held it before may have just finished.
            let claimed = in_place.staging.claim(&digest, size_bytes);
            match file_of(&in_place, &digest, size_bytes) {
                Some(_) => {
                    if let Ok(staged) = claimed {
                        staged.discard()?;
                    }
                    Ok(Ok(None))
                }
                None => match claimed {
                    Err(StagingError::InUse(_)) => Ok(Err(in_place.staging.held_bytes(&digest))),
                    claimed => Ok(Ok(Some(claimed?))),
                },
            }
        })
        .await?;
        match claimed {
            Ok(claimed) => return Ok(claimed),
            Err(held_bytes) => {
                if !std::mem::replace(&mut waiting, true) {
                    (reins.tell)(Notice::Elsewhere);
                }
                reins.progress.send_modify(|progress| {
                    progress.phase = Phase::Elsewhere;
                    progress.held_bytes = progress.held_bytes.max(held_bytes);
                });
                tokio::select! {
                    () = tokio::time::sleep(place.config.poll) => {}
                    () = stopped(&mut reins.stop) => return Ok(None),
                }
            }
        }
    }
}

async fn attempt(
    place: &Arc<Place>,
    wanted: &Wanted,
    reins: &mut Reins,
    staged: StagedBlob,
    suspects: &Suspects,
) -> Result<Attempt, DownloadError> {
    let (digest, size_bytes, config) = (wanted.digest, wanted.size_bytes, Arc::clone(&place.config));
    let health = Health::new(&wanted.sources, Arc::clone(&config), &suspects.wrong, suspects.alone);
    let state = State::new(digest, size_bytes, staged.held().clone(), health, Arc::clone(&config));
    let room = Arc::clone(&place.room);
    let spool = Spool::start(staged, size_bytes, Arc::clone(&place.credits), Box::new(move || room.check()));
    let mut view = spool.view();
    let shared = Arc::new(Shared {
        digest,
        size_bytes,
        state: state.into(),
        spool,
        throttle: Arc::clone(&place.throttle),
        piece_bytes: place.credits.most_bytes(),
        config,
        started: Instant::now(),
        changed: Notify::new(),
        over: Notify::new(),
    });
    let mut streams = JoinSet::new();
    for _ in 0..shared.config.streams.max(1) {
        streams.spawn(stream::work(Arc::clone(&shared)));
    }
    let mut tick = tokio::time::interval(TELL_EVERY);
    let ended = loop {
        {
            let view = view.borrow_and_update();
            if let Some(error) = &view.failed {
                break Err(error.clone());
            }
            if let Some(got) = view.digest {
                break Ok(Some(got));
            }
        }
        tokio::select! {
            _ = view.changed() => continue,
            () = shared.over.notified() => {}
            () = stopped(&mut reins.stop) => break Ok(None),
            _ = tick.tick() => {}
        }
        tell(place, &shared, &view, reins);
        if let Some(error) = shared.state().failure.clone() {
            break Err(error);
        }
    };
    streams.shutdown().await;
    tell(place, &shared, &view, reins);
    let shared = Arc::into_inner(shared).ok_or(DownloadError::Ended)?;
    let supplied = shared.state().health.sources.iter().map(|source| source.supplied.clone()).collect();
    let spool = shared.spool;
    let staged = blocking(move || Ok(spool.stop())).await?;
    match ended? {
        Some(got) => Ok(Attempt::Hashed(got, staged.ok_or(DownloadError::Ended)?, supplied)),
        None => Ok(Attempt::Stopped),
    }
}

/// Tells how far it has come, and what happened.
fn tell(place: &Place, shared: &Shared, view: &watch::Receiver<spool::View>, reins: &Reins) {
    let (notices, mut now) = {
        let mut state = shared.state();
        let mut now = BlobProgress::new(shared.size_bytes);
        now.held_bytes = state.plan.received_bytes();
        now.bytes_per_s = state.speed.bytes_per_s(shared.now());
        now.streams = state.plan.leases();
        now.host = state.health.current_host().map(str::to_owned);
        (std::mem::take(&mut state.notices), now)
    };
    let left_bytes = now.size_bytes - now.held_bytes;
    now.phase = if left_bytes == 0 { Phase::Verifying } else { Phase::Fetching };
    now.prefix_bytes = view.borrow().hashed_bytes;
    now.eta = left_bytes.checked_div(now.bytes_per_s).map(Duration::from_secs);
    place.room.left(shared.digest, left_bytes);
    reins.progress.send_modify(|progress| {
        now.attempt = progress.attempt;
        now.held_bytes = now.held_bytes.max(progress.held_bytes);
        now.prefix_bytes = now.prefix_bytes.max(progress.prefix_bytes);
        *progress = now;
    });
    notices.into_iter().for_each(|notice| (reins.tell)(notice));
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Whoever held the other end is gone together with the wish that it go on.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The file of a blob that is here.
fn file_of(place: &Place, digest: &Digest, size_bytes: u64) -> Option<PathBuf> {
    let path = place.library.blob_path(digest);
    let whole = std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() == size_bytes);
    whole.then_some(path).or_else(|| place.staging.ready(digest, size_bytes))
}

fn present(place: &Place, wanted: &Wanted) -> Result<Ready, DownloadError> {
    let (digest, size_bytes) = (wanted.digest, wanted.size_bytes);
    let path = file_of(place, &digest, size_bytes).ok_or(DownloadError::Ended)?;
    Ok(Ready { digest, size_bytes, path, present: true, wrong_hosts: Vec::new() })
}

fn hosts(wanted: &Wanted, indices: &[usize]) -> Vec<String> {
    indices.iter().filter_map(|index| wanted.sources.get(*index)).map(|source| source.host().to_owned()).collect()
}

/// Disks make threads wait, which those that serve streams must not.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StagingError> + Send + 'static,
) -> Result<T, DownloadError> {
    Ok(spawn_blocking(work).await.map_err(|_| DownloadError::Ended)??)
}

#[cfg(test)]
pub(crate) mod tests;
