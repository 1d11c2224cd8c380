//! State of one pull, and the event streams of its watchers.
//!
//! The worker writes to the job's [`View`]. Any number of watchers read it at their own pace. A late watcher gets all
//! events from the start. A slow watcher gets the latest progress and skips older progress.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_disk::LockFile;
use cairn_registry::BlobProgress;
use cairn_store::{Digest, Layer, ModelRef};
use tokio::sync::watch;

use super::blobs::{Blobs, PulledBlob};
use super::error::PullError;
use super::{PullRow, PullState, Pulls};
use crate::transfers::error::Error;

/// Maximum number of log lines that are stored for late watchers.
const MAX_LOG_LINES: usize = 200;

/// An event of a pull.
#[derive(Debug)]
pub enum PullEvent {
    /// A step begins, or the pull is complete.
    Step(PullStep),
    /// Progress of a blob.
    Blob(PulledBlob),
    /// A warning or a note, as a line for the user.
    Problem(String),
    /// The pull failed. This is the last event.
    Failed(Error),
}

/// Steps of a pull. Their texts are those of Ollama.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullStep {
    /// Requests the manifest.
    Manifest,
    /// All blobs are complete and verified.
    Verifying,
    /// Writes the manifest.
    Writing,
    /// Removed the blobs that only the previous version used.
    Removing,
    /// The model is in the library.
    Success,
}

impl PullStep {
    /// Ollama's text for the step.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Manifest => "pulling manifest",
            Self::Verifying => "verifying sha256 digest",
            Self::Writing => "writing manifest",
            Self::Removing => "removing unused layers",
            Self::Success => "success",
        }
    }
}

/// The state that a user requests for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    Run,
    Pause,
    Stop,
    Discard,
}

/// Parameters of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PullRequest {
    /// The name as written. It may begin with `http://`, which is not part of the model's identity.
    pub(super) name: ModelRef,
    pub(super) insecure: bool,
    pub(super) sources: Vec<String>,
    /// Whether only clients of the mirror request the model. Such a pull does not replace a local model of the same
    /// name.
    pub(super) for_clients: bool,
    /// Whether the model is downloaded even if this version cannot run it.
    pub(super) force: bool,
}

/// A pull.
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) name: ModelRef,
    view: Mutex<View>,
    /// Counts changes of `view`.
    changed: watch::Sender<u64>,
    pub(super) intent: watch::Sender<Intent>,
    /// Counts changes of any job.
    any_changed: watch::Sender<u64>,
    /// Lock that keeps other daemons of the same library from the job, while work is left. `None` if another daemon has
    /// it, or no work is left.
    claim: Mutex<Option<LockFile>>,
}

/// The state of a job that is shared by its worker and its watchers.
pub(super) struct View {
    pub(super) request: PullRequest,
    pub(super) state: PullState,
    pub(super) watchers: usize,
    pub(super) detached: bool,
    /// Whether the model is being published, which cannot be interrupted.
    pub(super) publishing: bool,
    pub(super) blobs: Blobs,
    /// Partial blobs of an earlier version of the model, which no pull resumes.
    pub(super) superseded: Vec<PulledBlob>,
    /// Whether `blobs` is from the current manifest, not from an earlier attempt.
    fresh: bool,
    pub(super) error: Option<PullError>,
    problem: Option<String>,
    log: Vec<LogLine>,
    /// Number of restarts after an end. Events of an earlier run are obsolete.
    run: u32,
}

/// An event that is stored for late watchers.
#[derive(Debug, Clone)]
enum LogLine {
    Step(PullStep),
    Problem(String),
}

impl Job {
    pub(super) fn new(
        id: u64,
        name: ModelRef,
        request: PullRequest,
        claim: Option<LockFile>,
        any_changed: watch::Sender<u64>,
    ) -> Self {
        let view = View {
            request,
            state: PullState::Queued,
            watchers: 0,
            detached: false,
            publishing: false,
            blobs: Blobs::default(),
            superseded: Vec::new(),
            fresh: false,
            error: None,
            problem: None,
            log: Vec::new(),
            run: 0,
        };
        Self {
            id,
            name,
            view: Mutex::new(view),
            changed: watch::Sender::new(0),
            intent: watch::Sender::new(Intent::Run),
            any_changed,
            claim: Mutex::new(claim),
        }
    }

    /// Whether this daemon holds the job's lock.
    pub(super) fn is_claimed(&self) -> bool {
        self.claim.lock().is_some()
    }

    /// Sets the claim to the result of `take`, unless the job is claimed.
    pub(super) fn claim(&self, take: impl FnOnce() -> Option<LockFile>) {
        let mut claim = self.claim.lock();
        if claim.is_none() {
            *claim = take();
        }
    }

    /// Releases the claim.
    pub(super) fn release_claim(&self) {
        *self.claim.lock() = None;
    }

    /// Locks the view for reading.
    pub(super) fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock()
    }

    /// Changes the view and wakes all watchers.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut View) -> T) -> T {
        let changed = change(&mut self.view());
        self.changed.send_modify(|count| *count += 1);
        self.any_changed.send_modify(|count| *count += 1);
        changed
    }

    pub(super) fn step(&self, step: PullStep) {
        self.change(|view| view.log.push(LogLine::Step(step)));
    }

    /// Sends a warning to the watchers and to the log.
    pub(super) fn problem(&self, line: String) {
        tracing::warn!(model = %self.name, "{line}");
        self.change(|view| {
            view.problem = Some(line.clone());
            if view.log.len() < MAX_LOG_LINES {
                view.log.push(LogLine::Problem(line));
            }
        });
    }

    /// Sends a note to the watchers and to the log.
    pub(super) fn info(&self, line: String) {
        tracing::info!(model = %self.name, "{line}");
        self.change(|view| {
            if view.log.len() < MAX_LOG_LINES {
                view.log.push(LogLine::Problem(line));
            }
        });
    }

    /// Marks a blob as complete.
    pub(super) fn complete_blob(&self, layer: &Layer) {
        self.change(|view| {
            view.blobs.update(&layer.digest, |blob| {
                (blob.held_bytes, blob.bytes_per_s, blob.host) = (layer.size_bytes, 0, None);
            });
        });
    }

    /// Records that the partial data of a blob was removed.
    pub(super) fn forget_bytes(&self, digest: &Digest) {
        self.change(|view| view.blobs.update(digest, |blob| (blob.held_bytes, blob.bytes_per_s) = (0, 0)));
    }

    /// Sets the blobs of the current manifest. Partial blobs of an earlier version stay listed as superseded, so that
    /// they can be discarded, except those in `needed`, which another job uses.
    pub(super) fn set_blobs(&self, blobs: Vec<PulledBlob>, needed: &HashSet<Digest>) {
        self.change(|view| {
            let before = view.blobs.replace(blobs);
            view.superseded.extend(before);
            view.superseded.retain(|old| {
                let is_unneeded = !view.blobs.contains(&old.digest) && !needed.contains(&old.digest);
                old.held_bytes > 0 && !old.published && is_unneeded
            });
            view.fresh = true;
        });
    }

    /// Whether an incomplete pull needs this blob.
    pub(super) fn needs(&self, digest: &Digest) -> bool {
        let view = self.view();
        view.state != PullState::Done && view.blobs.contains(digest)
    }

    /// Forgets superseded blobs that were removed.
    pub(super) fn remove_superseded(&self, removed: &HashSet<Digest>) {
        if self.view().superseded.iter().any(|old| removed.contains(&old.digest)) {
            self.change(|view| view.superseded.retain(|old| !removed.contains(&old.digest)));
        }
    }

    pub(super) fn progress(&self, digest: &Digest, now: &BlobProgress) {
        self.change(|view| {
            view.blobs.update(digest, |blob| {
                (blob.held_bytes, blob.bytes_per_s) = (now.held_bytes, now.bytes_per_s);
                blob.host.clone_from(&now.host);
            });
        });
    }

    /// Puts the job into the queue, for the first time or again.
    pub(super) fn queue(&self) {
        self.intent.send_replace(Intent::Run);
        self.change(|view| {
            if matches!(view.state, PullState::Failed | PullState::Stopped | PullState::Done) {
                view.log.clear();
                view.run += 1;
            }
            (view.state, view.error, view.problem, view.fresh) = (PullState::Queued, None, None, false);
        });
    }

    /// Sets a state in which no work is done.
    pub(super) fn end(&self, state: PullState, error: Option<PullError>) {
        self.change(|view| {
            (view.state, view.error, view.publishing) = (state, error, false);
            view.blobs.iter_mut().for_each(|blob| (blob.bytes_per_s, blob.host) = (0, None));
        });
    }

    pub(super) fn row(&self) -> PullRow {
        let view = self.view();
        let sum = |count: fn(&PulledBlob) -> u64| view.blobs.iter().map(count).fold(0, u64::saturating_add);
        let (total_bytes, done_bytes) = (sum(|blob| blob.size_bytes), sum(|blob| blob.held_bytes));
        let bytes_per_s = sum(|blob| blob.bytes_per_s);
        let left_bytes = total_bytes.saturating_sub(done_bytes);
        let superseded_bytes = view.superseded.iter().map(|blob| blob.held_bytes).fold(0, u64::saturating_add);
        let superseded = (superseded_bytes > 0).then(|| {
            format!(
                "{:.1} MB of an earlier version are stored; `cairn downloads discard {}` removes them",
                superseded_bytes as f64 / 1e6,
                self.id
            )
        });
        PullRow {
            id: self.id,
            model: self.name.to_string(),
            state: view.state,
            total_bytes,
            done_bytes,
            bytes_per_s,
            eta: left_bytes.checked_div(bytes_per_s).map(Duration::from_secs),
            held_bytes: superseded_bytes.saturating_add(match view.state {
                PullState::Done => 0,
                _ => sum(|blob| if blob.published { 0 } else { blob.held_bytes }),
            }),
            host: view.blobs.iter().find_map(|blob| blob.host.clone()),
            problem: view.problem.clone().or(superseded),
            error: view.error.clone(),
            detached: view.detached,
        }
    }
}

/// The event stream of one watcher. Dropping it removes the watcher. If no watcher is left and the pull is not
/// detached, the pull stops and its partial blobs stay.
pub struct PullEvents {
    job: Arc<Job>,
    pulls: Pulls,
    changed: watch::Receiver<u64>,
    cursor: EventCursor,
}

/// The events that a watcher has received.
#[derive(Default)]
struct EventCursor {
    run: u32,
    lines: usize,
    /// Number of the last change of a blob.
    change: u64,
    end: bool,
}

impl PullEvents {
    /// Creates the stream of a watcher that the job already counts.
    pub(super) fn new(pulls: Pulls, job: Arc<Job>) -> Self {
        let run = job.view().run;
        let (changed, cursor) = (job.changed.subscribe(), EventCursor { run, ..EventCursor::default() });
        Self { job, pulls, changed, cursor }
    }

    /// The next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<PullEvent> {
        loop {
            if self.cursor.end {
                return None;
            }
            self.changed.mark_unchanged();
            if let Some(event) = self.cursor.next(&self.job.view()) {
                return Some(event);
            }
            if self.cursor.end {
                continue;
            }
            tokio::select! {
                changed = self.changed.changed() => changed.ok()?,
                () = self.pulls.shutting_down() => {
                    self.cursor.end = true;
                    return Some(PullEvent::Failed(PullError::Ending.into()));
                }
            }
        }
    }
}

impl EventCursor {
    /// Returns the next event, if there is one.
    fn next(&mut self, view: &View) -> Option<PullEvent> {
        if view.run != self.run {
            *self = Self { run: view.run, ..Self::default() };
        }
        let line = view.log.get(self.lines);
        let is_immediate = matches!(line, Some(LogLine::Problem(_) | LogLine::Step(PullStep::Manifest)));
        // Progress precedes the steps that follow it.
        if !is_immediate
            && view.fresh
            && let Some((change, blob)) = view.blobs.next_change(self.change)
        {
            self.change = change;
            return Some(PullEvent::Blob(blob.clone()));
        }
        if let Some(line) = line {
            self.lines += 1;
            return Some(match line.clone() {
                LogLine::Problem(line) => PullEvent::Problem(line),
                LogLine::Step(step) => PullEvent::Step(step),
            });
        }
        match view.state {
            PullState::Queued | PullState::Running | PullState::Paused => None,
            PullState::Done => {
                self.end = true;
                None
            }
            PullState::Stopped | PullState::Failed => {
                self.end = true;
                let error = view.error.clone().unwrap_or(PullError::Stopped);
                Some(PullEvent::Failed(Error::Pull(error)))
            }
        }
    }
}

impl Drop for PullEvents {
    fn drop(&mut self) {
        self.pulls.remove_watcher(&self.job);
    }
}
