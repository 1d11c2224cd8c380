//! Pull: transfers a model from its registry to the library.
//!
//! Each pull is one [`Job`](job::Job). It runs while it has watchers, or detached until it ends. Requests for the same
//! model share a job. The [`journal`] in the library records each job, so that the next daemon resumes it.
//!
//! ```text
//! queued -> running -> done
//!   ^  ^       | `---> failed, stopped ---+
//!   |  `-- paused                         |  resume, or another pull
//!   `-------------------------------------+
//! ```
//!
//! **Invariants:** one job for each name; a model is listed only when it is complete and verified; partial blobs stay
//! until a user discards them.

mod blobs;
mod error;
mod job;
mod jobs;
mod journal;
mod nearby;
mod origins;
mod pulled_manifests;
mod runnable;
mod shared;
mod work;

use std::sync::Arc;

use parking_lot::Mutex;
use std::time::Duration;

use cairn_registry::Downloads;
use cairn_store::Library;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::library::ModelLibrary;
use crate::settings::Settings;
use crate::transfers::Transfers;
use crate::transfers::error::Error;
pub use blobs::PulledBlob;
pub use error::PullError;
pub(crate) use error::tls_advice;
use job::{Intent, Job};
pub use job::{PullEvent, PullEvents, PullStep};
use journal::Journal;
pub(crate) use origins::RegistryAccess;
use pulled_manifests::PulledManifests;

/// Maximum wait for a download to stop before its blobs are removed, and for the journal to be written.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Parameters of a pull.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pull {
    /// Name of the model.
    pub name: String,
    /// Whether plain http is allowed.
    pub insecure: bool,
    /// Addresses of mirrors from which blobs are downloaded first.
    pub sources: Vec<String>,
    /// Whether the model is downloaded even if this version cannot run it.
    pub force: bool,
}

/// A row in the list of downloads.
#[derive(Debug, Clone)]
pub struct PullRow {
    /// Identifies the pull until the daemon ends.
    pub id: u64,
    /// The model.
    pub model: String,
    /// State of the pull.
    pub state: PullState,
    /// Size of the model; 0 until the manifest is received.
    pub total_bytes: u64,
    /// Bytes that are on this machine.
    pub done_bytes: u64,
    /// Speed over the last seconds.
    pub bytes_per_s: u64,
    /// Remaining time at that speed; `None` if the speed is 0.
    pub eta: Option<Duration>,
    /// Bytes that discarding would remove: on this machine, but not published.
    pub held_bytes: u64,
    /// Host of the current source.
    pub host: Option<String>,
    /// The last warning.
    pub problem: Option<String>,
    /// The error of a failed pull.
    pub error: Option<PullError>,
    /// Whether the pull runs without watchers.
    pub detached: bool,
}

/// State of a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PullState {
    /// Waits for a free worker.
    Queued,
    /// Runs.
    Running,
    /// Paused by the user.
    Paused,
    /// Stopped by the user, or because no watcher was left.
    Stopped,
    /// Failed.
    Failed,
    /// Complete.
    Done,
}

/// All pulls into one library. Clones share all state.
#[derive(Clone)]
pub(crate) struct Pulls(Arc<Inner>);

struct Inner {
    library: Library,
    /// Read-only libraries.
    others: Vec<Library>,
    /// Checks whether a model can run.
    models: ModelLibrary,
    settings: Arc<Settings>,
    seed: u64,
    registry_access: RegistryAccess,
    journal: Journal,
    pulled_manifests: PulledManifests,
    queue: Mutex<Queue>,
    downloads: Mutex<Option<Downloads>>,
    limit_bytes_per_s: Mutex<Option<u64>>,
    /// Counts changes of any job.
    changed: watch::Sender<u64>,
    /// Number of running pulls.
    working: watch::Sender<usize>,
    /// Whether the daemon shuts down. Then leaving watchers do not stop a job.
    shutting_down: watch::Sender<bool>,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Arc<Job>>,
    last_id: u64,
}

/// Checks that a text is a valid name of a model.
///
/// # Errors
/// If the name is invalid.
pub fn check_name(text: &str) -> Result<(), Error> {
    Ok(text.parse::<cairn_store::ModelRef>().map(drop)?)
}

impl Transfers {
    /// Pulls a model, or joins a running pull of it. Returns its events. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the name is invalid or that of the built-in model. Other errors are events.
    pub fn pull(&self, pull: Pull) -> Result<PullEvents, Error> {
        let job = self.pulls.enqueue(pull, false, false)?;
        let events = PullEvents::new(self.pulls.clone(), Arc::clone(&job));
        self.pulls.start();
        self.pulls.report_queue_position(&job);
        Ok(events)
    }

    /// Pulls a model without watchers.
    ///
    /// # Errors
    /// As for [`pull`](Self::pull).
    pub async fn pull_detached(&self, pull: Pull) -> Result<PullRow, Error> {
        let job = self.pulls.enqueue(pull, true, false)?;
        self.pulls.start();
        // The record must survive this daemon.
        let _ = tokio::time::timeout(STOP_TIMEOUT, self.pulls.0.journal.flush()).await;
        Ok(job.row())
    }

    /// Lists all pulls: unfinished ones, and those that ended since the daemon started, in the order in which they run.
    #[must_use]
    pub fn downloads(&self) -> Vec<PullRow> {
        self.pulls.0.queue().jobs.iter().map(|job| job.row()).collect()
    }

    /// A counter that changes whenever [`downloads`](Self::downloads) changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.pulls.0.changed.subscribe()
    }

    /// Number of running pulls.
    #[must_use]
    pub fn working(&self) -> watch::Receiver<usize> {
        self.pulls.0.working.subscribe()
    }

    /// Pauses a pull until it is resumed, also across restarts. `which` is an id or a name.
    ///
    /// # Errors
    /// If the download does not exist or is complete.
    pub async fn pause(&self, which: &str) -> Result<(), Error> {
        self.pulls.set_intent_and_wait(which, Intent::Pause).await
    }

    /// Resumes a paused, stopped or failed pull. Without watchers it runs detached. With `force` the model is downloaded
    /// even if this version cannot run it.
    ///
    /// # Errors
    /// If the download does not exist or is complete.
    pub async fn resume(&self, which: &str, force: bool) -> Result<(), Error> {
        self.pulls.0.find(which)?.change(|view| view.request.force |= force);
        self.pulls.set_intent_and_wait(which, Intent::Run).await
    }

    /// Stops a pull and keeps its partial blobs.
    ///
    /// # Errors
    /// If the download does not exist or is complete.
    pub async fn cancel(&self, which: &str) -> Result<(), Error> {
        self.pulls.set_intent_and_wait(which, Intent::Stop).await
    }

    /// Stops a pull and removes its partial blobs, except those that another pull needs.
    ///
    /// # Errors
    /// If the download does not exist.
    pub async fn discard(&self, which: &str) -> Result<(), Error> {
        self.pulls.set_intent_and_wait(which, Intent::Discard).await
    }

    /// Moves a download to a position in the list, counted from 0.
    ///
    /// # Errors
    /// If the download does not exist.
    pub async fn reorder(&self, which: &str, position: usize) -> Result<(), Error> {
        let inner = &self.pulls.0;
        let job = inner.find(which)?;
        let jobs = {
            let mut queue = inner.queue();
            queue.jobs.retain(|other| other.id != job.id);
            let position = position.min(queue.jobs.len());
            queue.jobs.insert(position, job);
            queue.jobs.clone()
        };
        jobs.iter().for_each(|job| inner.save_job(job));
        inner.changed.send_modify(|count| *count += 1);
        let _ = tokio::time::timeout(STOP_TIMEOUT, inner.journal.flush()).await;
        Ok(())
    }

    /// Speed limit of all downloads together, in bytes per second.
    #[must_use]
    pub fn speed_limit(&self) -> Option<u64> {
        *self.pulls.0.limit_bytes_per_s.lock()
    }

    /// Sets the speed limit until the daemon ends.
    pub fn set_speed_limit(&self, bytes_per_s: Option<u64>) {
        let inner = &self.pulls.0;
        *inner.limit_bytes_per_s.lock() = bytes_per_s;
        if let Some(downloads) = &*inner.downloads.lock() {
            downloads.set_cap(bytes_per_s);
        }
        inner.changed.send_modify(|count| *count += 1);
    }

    /// Stops all downloads without loss. The next daemon resumes them.
    pub async fn close(&self) {
        self.pulls.0.shutting_down.send_replace(true);
        let downloads = self.pulls.0.downloads.lock().clone();
        if let Some(downloads) = downloads {
            downloads.shut_down().await;
        }
        self.pulls.0.journal.flush().await;
    }
}

#[cfg(test)]
mod tests;
