//! The download of one blob: from several sources, in parallel ranges, resumable, verified by its digest.
//!
//! ```text
//!  streams --take--> Plan            what to fetch, pure          (plan, health, state)
//!     |                              which source to use
//!     | bytes, limited by WriteBudget
//!     v
//!  writer -> keeper (sync, journal)  three threads                (spool)
//!     `----> hasher                  in order, behind the streams
//! ```
//!
//! **Invariants:** ranges in the journal are on the disk. At most [`DownloadConfig::max_unsynced_bytes`] and one chunk of
//! each stream are not in the journal, for all downloads together. A blob is complete only after its bytes, read back, have
//! its digest. A failing source causes a [`DownloadNotice`], and a [`DownloadError`] if no other source is left.

mod corruption;
mod disk_space;
mod error;
mod fetch_limit;
mod health;
mod plan;
mod read_positions;
mod run;
mod speed;
mod spool;
mod state;
mod stream;
mod throttle;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, Library, Ranges, Staging};
use tokio::sync::watch;

use crate::BlobSource;
pub(crate) use disk_space::DiskSpace;
pub use error::{DownloadError, DownloadNotice};
pub(crate) use fetch_limit::FetchLimit;
pub(crate) use read_positions::ReadPositions;
pub(crate) use run::fetch;
pub(crate) use spool::WriteBudget;
pub(crate) use throttle::Throttle;

/// Settings of downloads. The defaults suit a home internet connection.
#[derive(Debug, Clone)]
pub struct DownloadConfig {
    /// Parallel streams of one download per source.
    pub streams: usize,
    /// Maximum number of parallel downloads, not counting [`crate::Priority::Now`].
    pub max_parallel: usize,
    /// Maximum size of one request.
    pub segment_bytes: u64,
    /// Minimum size of both halves when a range is split between streams. The minimum size of a request is a quarter of it.
    pub split_bytes: u64,
    /// Maximum bytes of all downloads together that a crash may lose, in addition to one chunk of each stream.
    pub max_unsynced_bytes: u32,
    /// A stream without data for this long is reopened.
    pub stall_timeout: Duration,
    /// Stalls in a row after which the download fails.
    pub max_stalls: u32,
    /// A stream that is eight times slower than the others after this time is reopened.
    pub slow_after: Duration,
    /// Target duration of one request.
    pub lease_duration: Duration,
    /// Idle streams take over work of a stream that is four times slower and would need longer than this.
    pub steal_after: Duration,
    /// Failures in a row after which a source is abandoned.
    pub max_attempts: u32,
    /// Backoff of a source after its first failure; it doubles with each further failure.
    pub backoff: Duration,
    /// Maximum backoff, unless the source requests more.
    pub max_backoff: Duration,
    /// Maximum `Retry-After` that is respected; a longer one is an error.
    pub max_retry_after: Duration,
    /// How often to check whether another process has finished a download.
    pub poll_interval: Duration,
    /// Bytes of the disk that must stay free.
    pub reserve_bytes: u64,
    /// Limit on bytes per second of all downloads together.
    pub limit_bytes_per_s: Option<u64>,
    /// Seed of the jitter of backoffs.
    pub seed: u64,
}

impl Default for DownloadConfig {
    fn default() -> Self {
        Self {
            streams: 8,
            max_parallel: 3,
            segment_bytes: 64 << 20,
            split_bytes: 1 << 20,
            max_unsynced_bytes: 10 << 20,
            stall_timeout: Duration::from_secs(30),
            max_stalls: 10,
            slow_after: Duration::from_secs(10),
            lease_duration: Duration::from_secs(4),
            steal_after: Duration::from_secs(4),
            max_attempts: 6,
            backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(60),
            max_retry_after: Duration::from_secs(600),
            poll_interval: Duration::from_millis(500),
            reserve_bytes: 512 << 20,
            limit_bytes_per_s: None,
            seed: 0,
        }
    }
}

/// Progress of a download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobProgress {
    /// The phase.
    pub phase: Phase,
    /// Size of the blob.
    pub size_bytes: u64,
    /// Received bytes. Never decreases within an `attempt`.
    pub held_bytes: u64,
    /// Length of the leading part that is written and hashed: it can be read already.
    pub prefix_bytes: u64,
    /// All written ranges. They can be read, but are not verified.
    pub written: Ranges,
    /// Current speed.
    pub bytes_per_s: u64,
    /// Remaining time at the current speed; `None` without data.
    pub eta: Option<Duration>,
    /// Number of the attempt, from 1. A digest mismatch starts a new attempt from the beginning.
    pub attempt: u32,
    /// The preferred source.
    pub host: Option<String>,
    /// Open requests.
    pub streams: usize,
}

/// Phase of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waits in the queue.
    Queued,
    /// Downloads.
    Fetching,
    /// All bytes are received, and the digest is computed.
    Verifying,
    /// Another process downloads the blob; this download waits for it.
    OtherProcess,
    /// Paused by the user.
    Paused,
    /// The download failed.
    Failed,
    /// Complete.
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

/// A complete and verified blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedBlob {
    /// The digest.
    pub digest: Digest,
    /// The size.
    pub size_bytes: u64,
    /// The file, in the library or in the staging area.
    pub path: PathBuf,
    /// Whether it existed before the download.
    pub present: bool,
    /// Hosts that sent wrong bytes.
    pub wrong_hosts: Vec<String>,
}

/// Shared context of all downloads into a library.
pub(crate) struct DownloadContext {
    pub(crate) library: Library,
    pub(crate) staging: Staging,
    pub(crate) disk_space: Arc<DiskSpace>,
    pub(crate) write_budget: Arc<WriteBudget>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) config: Arc<DownloadConfig>,
}

/// The blob of a download and its sources.
#[derive(Clone)]
pub(crate) struct DownloadSpec {
    pub(crate) digest: Digest,
    pub(crate) size_bytes: u64,
    pub(crate) sources: Vec<Arc<dyn BlobSource>>,
    /// Positions at which readers wait.
    pub(crate) read_positions: Arc<ReadPositions>,
    /// How much of the blob is downloaded.
    pub(crate) limit: Arc<FetchLimit>,
}

/// Stop signal and outputs of a running download.
pub(crate) struct DownloadControl {
    pub(crate) progress: Arc<watch::Sender<BlobProgress>>,
    /// Becomes true when the download must stop; partial data is kept.
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) on_notice: Box<dyn Fn(DownloadNotice) + Send + Sync>,
}

/// Result of a run of a download.
#[derive(Debug)]
pub(crate) enum DownloadOutcome {
    Completed(CompletedBlob),
    Stopped,
}

#[cfg(test)]
pub(crate) mod tests;
