//! One model on its way: what is done for it, and who watches.
//!
//! The work writes into the job's view, and any number of watchers read from it at their own pace. A watcher that comes
//! late is told everything from the beginning, and one that is slow is told the latest numbers and not all of them.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cairn_disk::LockFile;
use cairn_registry::BlobProgress;
use cairn_store::{Digest, Layer, ModelRef};
use tokio::sync::watch;

use super::error::PullError;
use super::{PullRow, PullState, Pulls};
use crate::transfers::error::Error;

/// Lines of trouble that are kept for watchers who come late.
const KEPT_LINES: usize = 200;

/// What becomes of a pull.
#[derive(Debug)]
pub enum PullEvent {
    /// A step begins, or the model is there.
    Step(PullStep),
    /// How far one of the model's contents has come.
    Blob(PulledBlob),
    /// Something went wrong and was got round, or must be waited for: a line for people.
    Trouble(String),
    /// The end: no such model came.
    Failed(Error),
}

/// Steps of a pull. Their texts are Ollama's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullStep {
    /// The registry is asked what the model is made of.
    Manifest,
    /// All contents came, and have their digests.
    Verifying,
    /// The model gets its name.
    Writing,
    /// What the version before had and nothing has any more was removed.
    Removing,
    /// The model is there.
    Success,
}

impl PullStep {
    /// The step in Ollama's words.
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

/// How far one of a model's contents has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledBlob {
    /// Which.
    pub digest: Digest,
    /// Its bytes.
    pub size_bytes: u64,
    /// How many of them are here.
    pub held_bytes: u64,
    /// How fast they come.
    pub bytes_per_s: u64,
    /// From where.
    pub host: Option<String>,
    /// The library has it: discarding would not remove it.
    pub published: bool,
}

/// What somebody wants of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Go,
    Pause,
    Stop,
    Discard,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    /// The name as it was written: with `http://` perhaps, which is no part of what a name stands for.
    pub(super) name: ModelRef,
    pub(super) insecure: bool,
    pub(super) sources: Vec<String>,
    /// Only clients of this machine's registry want it: what a user made under the name is not replaced.
    pub(super) for_clients: bool,
}

/// One model on its way.
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) name: ModelRef,
    view: Mutex<View>,
    /// Counts changes of the view.
    changed: watch::Sender<u64>,
    pub(super) wish: watch::Sender<Wish>,
    /// Changes of any job.
    any_changed: watch::Sender<u64>,
    /// Held while something is to be done, so that another daemon of the same library leaves the job alone; none where that
    /// one has it.
    claim: Mutex<Option<LockFile>>,
}

/// What there is to know of a job.
pub(super) struct View {
    pub(super) asked: Asked,
    pub(super) state: PullState,
    pub(super) watchers: usize,
    pub(super) detached: bool,
    /// The contents are being given their place, which nothing interrupts.
    pub(super) publishing: bool,
    pub(super) blobs: Vec<PulledBlob>,
    /// What came of earlier versions of the model, which nobody goes on with.
    pub(super) superseded: Vec<PulledBlob>,
    /// `blobs` is what the registry says now, and not what was known of an earlier try.
    fresh: bool,
    pub(super) error: Option<PullError>,
    trouble: Option<String>,
    log: Vec<Said>,
    /// How often it began anew after an end: what was told before is over.
    run: u32,
}

/// A line that watchers are told.
#[derive(Debug, Clone)]
enum Said {
    Step(PullStep),
    Trouble(String),
}

impl Job {
    pub(super) fn new(
        id: u64,
        name: ModelRef,
        asked: Asked,
        claim: Option<LockFile>,
        any_changed: watch::Sender<u64>,
    ) -> Self {
        let view = View {
            asked,
            state: PullState::Queued,
            watchers: 0,
            detached: false,
            publishing: false,
            blobs: Vec::new(),
            superseded: Vec::new(),
            fresh: false,
            error: None,
            trouble: None,
            log: Vec::new(),
            run: 0,
        };
        Self {
            id,
            name,
            view: Mutex::new(view),
            changed: watch::Sender::new(0),
            wish: watch::Sender::new(Wish::Go),
            any_changed,
            claim: Mutex::new(claim),
        }
    }

    /// Is it ours to remember?
    pub(super) fn is_claimed(&self) -> bool {
        self.claim.lock().is_some()
    }

    /// Takes the claim, unless it is taken.
    pub(super) fn claim(&self, take: impl FnOnce() -> Option<LockFile>) {
        let mut claim = self.claim.lock();
        if claim.is_none() {
            *claim = take();
        }
    }

    /// Nothing is left to be done.
    pub(super) fn let_go(&self) {
        *self.claim.lock() = None;
    }

    /// What there is to know, for looking only.
    pub(super) fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock()
    }

    /// Changes the view, and wakes those who watch.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut View) -> T) -> T {
        let changed = change(&mut self.view());
        self.changed.send_modify(|count| *count += 1);
        self.any_changed.send_modify(|count| *count += 1);
        changed
    }

    pub(super) fn step(&self, step: PullStep) {
        self.change(|view| view.log.push(Said::Step(step)));
    }

    /// Says a line of trouble to whoever watches, and to the log.
    pub(super) fn trouble(&self, line: String) {
        tracing::warn!(model = %self.name, "{line}");
        self.change(|view| {
            view.trouble = Some(line.clone());
            if view.log.len() < KEPT_LINES {
                view.log.push(Said::Trouble(line));
            }
        });
    }

    /// Says a line that is no trouble.
    pub(super) fn say(&self, line: String) {
        tracing::info!(model = %self.name, "{line}");
        self.change(|view| {
            if view.log.len() < KEPT_LINES {
                view.log.push(Said::Trouble(line));
            }
        });
    }

    /// One of the contents is here.
    pub(super) fn held(&self, layer: &Layer) {
        self.change(|view| {
            if let Some(blob) = view.blobs.iter_mut().find(|blob| blob.digest == layer.digest) {
                (blob.held_bytes, blob.bytes_per_s, blob.host) = (layer.size_bytes, 0, None);
            }
        });
    }

    /// What the model is made of, and how much of it is here. What came of an earlier version stays known, so that it can be
    /// discarded, unless it is `wanted` elsewhere.
    pub(super) fn found(&self, blobs: Vec<PulledBlob>, wanted: &[Digest]) {
        self.change(|view| {
            view.superseded.append(&mut view.blobs);
            view.superseded.retain(|old| {
                let named = blobs.iter().any(|blob| blob.digest == old.digest);
                old.held_bytes > 0 && !old.published && !named && !wanted.contains(&old.digest)
            });
            (view.blobs, view.fresh) = (blobs, true);
        });
    }

    /// Is it one of the contents of a model that is not here yet?
    pub(super) fn wants(&self, digest: &Digest) -> bool {
        let view = self.view();
        view.state != PullState::Done && view.blobs.iter().any(|blob| blob.digest == *digest)
    }

    /// What came of earlier versions was removed.
    pub(super) fn superseded_is_gone(&self, removed: &[Digest]) {
        if self.view().superseded.iter().any(|old| removed.contains(&old.digest)) {
            self.change(|view| view.superseded.retain(|old| !removed.contains(&old.digest)));
        }
    }

    pub(super) fn progress(&self, digest: &Digest, now: &BlobProgress) {
        self.change(|view| {
            if let Some(blob) = view.blobs.iter_mut().find(|blob| blob.digest == *digest) {
                (blob.held_bytes, blob.bytes_per_s) = (now.held_bytes, now.bytes_per_s);
                blob.host.clone_from(&now.host);
            }
        });
    }

    /// It stands in the queue, new or again.
    pub(super) fn queue(&self) {
        self.wish.send_replace(Wish::Go);
        self.change(|view| {
            if matches!(view.state, PullState::Failed | PullState::Stopped | PullState::Done) {
                view.log.clear();
                view.run += 1;
            }
            (view.state, view.error, view.trouble, view.fresh) = (PullState::Queued, None, None, false);
        });
    }

    /// It ended, or rests.
    pub(super) fn end(&self, state: PullState, error: Option<PullError>) {
        self.change(|view| {
            (view.state, view.error, view.publishing) = (state, error, false);
            for blob in &mut view.blobs {
                (blob.bytes_per_s, blob.host) = (0, None);
            }
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
                "{:.1} MB of an earlier version are kept; `cairn downloads discard {}` removes them",
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
            trouble: view.trouble.clone().or(superseded),
            error: view.error.clone(),
            detached: view.detached,
        }
    }
}

/// A pull as one who asked for it sees it. Dropping it says that nobody waits here any more; when nobody waits anywhere,
/// and nobody said that it should go on all the same, the pull stops and keeps what came.
pub struct PullEvents {
    job: Arc<Job>,
    pulls: Pulls,
    changed: watch::Receiver<u64>,
    told: Told,
}

#[derive(Default)]
struct Told {
    run: u32,
    lines: usize,
    blobs: HashMap<Digest, u64>,
    end: bool,
}

impl PullEvents {
    /// Those of a job that counts this watcher already.
    pub(super) fn new(pulls: Pulls, job: Arc<Job>) -> Self {
        let run = job.view().run;
        let (changed, told) = (job.changed.subscribe(), Told { run, ..Told::default() });
        Self { job, pulls, changed, told }
    }

    /// The next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<PullEvent> {
        loop {
            if self.told.end {
                return None;
            }
            self.changed.mark_unchanged();
            if let Some(event) = self.told.next(&self.job.view()) {
                return Some(event);
            }
            if self.told.end {
                continue;
            }
            tokio::select! {
                changed = self.changed.changed() => changed.ok()?,
                () = self.pulls.ending() => {
                    self.told.end = true;
                    return Some(PullEvent::Failed(PullError::Ending.into()));
                }
            }
        }
    }
}

impl Told {
    /// What is to be told next, if anything is.
    fn next(&mut self, view: &View) -> Option<PullEvent> {
        if view.run != self.run {
            *self = Self { run: view.run, ..Self::default() };
        }
        let line = view.log.get(self.lines);
        let at_once = matches!(line, Some(Said::Trouble(_) | Said::Step(PullStep::Manifest)));
        // Numbers go before the steps that follow them.
        if !at_once
            && view.fresh
            && let Some(blob) = view.blobs.iter().find(|blob| self.is_news(blob))
        {
            self.blobs.insert(blob.digest, blob.held_bytes);
            return Some(PullEvent::Blob(blob.clone()));
        }
        if let Some(line) = line {
            self.lines += 1;
            return Some(match line.clone() {
                Said::Trouble(line) => PullEvent::Trouble(line),
                Said::Step(step) => PullEvent::Step(step),
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

    fn is_news(&self, blob: &PulledBlob) -> bool {
        self.blobs.get(&blob.digest) != Some(&blob.held_bytes)
    }
}

impl Drop for PullEvents {
    fn drop(&mut self) {
        self.pulls.leave(&self.job);
    }
}
