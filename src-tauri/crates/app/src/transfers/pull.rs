//! Pull: a model comes here from a registry, once for all who ask, and whatever happens on the way.
//!
//! Each model on its way is one [`Job`](job::Job): callers watch it, and it goes on while somebody does, or when it was
//! asked to go on all the same. What is to be done is remembered in the library ([`journal`]), so that a daemon that starts
//! goes on with what the one before it was at.
//!
//! ```text
//! queued -> running -> done
//!   ^  ^       | `---> failed, stopped ---+
//!   |  `-- paused                         |  resume, or another pull
//!   `-------------------------------------+
//! ```
//!
//! **Invariants:** one job for each name; a model is listed only when all of it is here and checked; what came is kept
//! until somebody discards it.

mod brought;
mod error;
mod job;
mod jobs;
mod journal;
mod nearby;
mod origins;
mod shared;
mod work;

use std::sync::Arc;

use parking_lot::Mutex;
use std::time::Duration;

use cairn_registry::Downloads;
use cairn_store::Library;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::settings::Settings;
use crate::transfers::error::Error;
use crate::transfers::handle::Transfers;
use brought::Brought;
pub use error::PullError;
pub(crate) use error::tls_advice;
use job::{Job, Wish};
pub use job::{PullEvent, PullEvents, PullStep, PulledBlob};
use journal::Journal;
pub(crate) use origins::Outside;

/// How long a download that was told to stop may take before its contents are removed under it, and a disk to write down
/// what was wished.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// A model that is to come here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pull {
    /// Its name.
    pub name: String,
    /// Whether its registry may be asked over plain http.
    pub insecure: bool,
    /// Addresses of mirrors to take contents from first.
    pub sources: Vec<String>,
}

/// A model that is on its way, in the list of downloads.
#[derive(Debug, Clone)]
pub struct PullRow {
    /// Names it while this daemon runs.
    pub id: u64,
    /// The model.
    pub model: String,
    /// What is done for it.
    pub state: PullState,
    /// Bytes of the model; 0 while nobody knows.
    pub total_bytes: u64,
    /// Bytes of it that are here.
    pub done_bytes: u64,
    /// Over the last seconds.
    pub bytes_per_s: u64,
    /// At that speed; `None` while nothing comes.
    pub eta: Option<Duration>,
    /// Bytes that are here and in no library yet: what discarding would remove.
    pub held_bytes: u64,
    /// Where bytes come from.
    pub host: Option<String>,
    /// What went wrong last and was got round.
    pub trouble: Option<String>,
    /// Why it failed.
    pub error: Option<PullError>,
    /// It goes on when nobody watches.
    pub detached: bool,
}

/// What is done for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PullState {
    /// It waits for its turn.
    Queued,
    /// It comes.
    Running,
    /// Its user paused it.
    Paused,
    /// Its user stopped it, or nobody watched any more.
    Stopped,
    /// Something is in the way.
    Failed,
    /// It is here.
    Done,
}

/// All models that are on their way into one library. Clones share them.
#[derive(Clone)]
pub(crate) struct Pulls(Arc<Inner>);

struct Inner {
    library: Library,
    /// Libraries that are only read.
    others: Vec<Library>,
    settings: Arc<Settings>,
    seed: u64,
    outside: Outside,
    journal: Journal,
    brought: Brought,
    queue: Mutex<Queue>,
    downloads: Mutex<Option<Downloads>>,
    limit_bytes_per_s: Mutex<Option<u64>>,
    /// Counts changes of any job.
    changed: watch::Sender<u64>,
    /// How many are at work.
    working: watch::Sender<usize>,
    /// The daemon ends: nothing that happens now is anybody's wish.
    ending: watch::Sender<bool>,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Arc<Job>>,
    last_id: u64,
}

/// Is it a name that a model can have?
///
/// # Errors
/// When it is none.
pub fn check_name(text: &str) -> Result<(), Error> {
    Ok(text.parse::<cairn_store::ModelRef>().map(drop)?)
}

impl Transfers {
    /// Brings a model here, or joins who does, and tells how far it has come. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When the name is none, or is the built-in model's. All else is told as an event.
    pub fn pull(&self, pull: Pull) -> Result<PullEvents, Error> {
        let job = self.pulls.ask(pull, false, false)?;
        let events = PullEvents::new(self.pulls.clone(), Arc::clone(&job));
        self.pulls.start();
        self.pulls.say_if_it_waits(&job);
        Ok(events)
    }

    /// Brings a model here whether or not anybody watches.
    ///
    /// # Errors
    /// As [`App::pull`].
    pub async fn pull_detached(&self, pull: Pull) -> Result<PullRow, Error> {
        let job = self.pulls.ask(pull, true, false)?;
        self.pulls.start();
        // Nobody watches, so what was said must outlive this daemon.
        let _ = tokio::time::timeout(STOP_WITHIN, self.pulls.0.journal.settled()).await;
        Ok(job.row())
    }

    /// Every model that is on its way, came since the daemon started, or was left, in the order in which they run.
    #[must_use]
    pub fn downloads(&self) -> Vec<PullRow> {
        self.pulls.0.queue().jobs.iter().map(|job| job.row()).collect()
    }

    /// Wakes up whenever [`App::downloads`] changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.pulls.0.changed.subscribe()
    }

    /// How many models are being fetched.
    #[must_use]
    pub fn working(&self) -> watch::Receiver<usize> {
        self.pulls.0.working.subscribe()
    }

    /// Stops fetching a model until it is resumed, after a restart too. `which` is an id or a name.
    ///
    /// # Errors
    /// When there is no such download, or it is done.
    pub async fn pause(&self, which: &str) -> Result<(), Error> {
        self.pulls.wish_and_wait(which, Wish::Pause).await
    }

    /// Lets one go on that was paused, stopped or failed; whether or not anybody watches, if nobody does now.
    ///
    /// # Errors
    /// When there is no such download, or it is done.
    pub async fn resume(&self, which: &str) -> Result<(), Error> {
        self.pulls.wish_and_wait(which, Wish::Go).await
    }

    /// Stops fetching a model and keeps what came.
    ///
    /// # Errors
    /// When there is no such download, or it is done.
    pub async fn cancel(&self, which: &str) -> Result<(), Error> {
        self.pulls.wish_and_wait(which, Wish::Stop).await
    }

    /// Stops fetching a model and removes what came, unless another download wants the same.
    ///
    /// # Errors
    /// When there is no such download.
    pub async fn discard(&self, which: &str) -> Result<(), Error> {
        self.pulls.wish_and_wait(which, Wish::Discard).await
    }

    /// Moves a download to a place in the list, counted from 0.
    ///
    /// # Errors
    /// When there is no such download.
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
        jobs.iter().for_each(|job| inner.note(job));
        inner.changed.send_modify(|count| *count += 1);
        let _ = tokio::time::timeout(STOP_WITHIN, inner.journal.settled()).await;
        Ok(())
    }

    /// The most bytes per second of all downloads together.
    #[must_use]
    pub fn speed_limit(&self) -> Option<u64> {
        *self.pulls.0.limit_bytes_per_s.lock()
    }

    /// Sets it, until the daemon ends.
    pub fn set_speed_limit(&self, bytes_per_s: Option<u64>) {
        let inner = &self.pulls.0;
        *inner.limit_bytes_per_s.lock() = bytes_per_s;
        if let Some(downloads) = &*inner.downloads.lock() {
            downloads.set_cap(bytes_per_s);
        }
        inner.changed.send_modify(|count| *count += 1);
    }

    /// Stops all downloads, so that nothing of what came is lost, and leaves them to the next daemon.
    pub async fn close(&self) {
        self.pulls.0.ending.send_replace(true);
        let downloads = self.pulls.0.downloads.lock().clone();
        if let Some(downloads) = downloads {
            downloads.shut_down().await;
        }
        self.pulls.0.journal.settled().await;
    }
}

#[cfg(test)]
mod tests;
