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
mod run;
mod speed;
mod spool;
mod state;
mod stream;
mod suspects;
mod throttle;
mod wishes;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, Library, Ranges, Staging};
use tokio::sync::watch;

use crate::BlobSource;
pub use error::{DownloadError, Notice};
pub(crate) use room::Room;
pub(crate) use run::fetch;
pub(crate) use spool::Credits;
pub(crate) use throttle::Throttle;
pub(crate) use wishes::Wishes;

/// How downloads behave. The defaults are for a home connection.
#[derive(Debug, Clone)]
pub struct Config {
    /// Streams of one download from one source.
    pub streams: usize,
    /// Downloads that run at the same time, those of [`crate::Priority::Now`] not counted.
    pub at_once: usize,
    /// The most bytes that one request asks for.
    pub segment_bytes: u64,
    /// A range is split between two streams only where both get this many bytes. The least that is asked for is a quarter
    /// of it.
    pub split_bytes: u64,
    /// The most bytes, of all downloads together, that a crash may lose. One chunk of each stream comes on top.
    pub unkept_bytes: u32,
    /// A stream from which nothing comes for so long is opened anew.
    pub stall: Duration,
    /// So many times in a row, before it is an error.
    pub stall_tries: u32,
    /// A stream that is eight times slower than the others after so long is opened anew.
    pub slow_after: Duration,
    /// How long one request is meant to take, as fast as its source is.
    pub lease_for: Duration,
    /// Idle streams take from one that is four times slower and would take longer than this.
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
            unkept_bytes: 10 << 20,
            stall: Duration::from_secs(30),
            stall_tries: 10,
            slow_after: Duration::from_secs(10),
            lease_for: Duration::from_secs(4),
            steal_after: Duration::from_secs(4),
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
    /// Which bytes are written, and can be read before their digest is known; not all of them from the first on.
    pub written: Ranges,
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
            written: Ranges::new(),
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
    /// Where its readers wait.
    pub(crate) wishes: Arc<Wishes>,
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

#[cfg(test)]
pub(crate) mod tests;
