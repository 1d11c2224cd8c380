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

mod error;
mod job;
mod journal;
mod origins;
mod work;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cairn_disk::RealDisk;
use cairn_registry::{Config, Downloads, Registry};
use cairn_store::{Digest, Layer, LayerKind, Library, ModelRef, StagingError};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::catalog::is_pebble;
use crate::settings::DownloadSettings;
use crate::{App, Clock, Error, pebble};
pub use error::PullError;
use job::{Asked, Job, Wish};
pub use job::{PullEvent, PullEvents, PullStep, PulledBlob};
use journal::Journal;
pub(crate) use origins::{Origins, Outside};

/// Models that are fetched at the same time; the others wait.
const MODELS_AT_ONCE: usize = 3;
/// Blobs that are fetched at the same time: the largest of each model, and one of its small ones.
const BLOBS_AT_ONCE: usize = 4;
/// Models that came and are still in the list.
const DONE_KEPT: usize = 20;
/// How long a download that was told to stop may take before its contents are removed under it.
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
    pub error: Option<String>,
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
    settings: DownloadSettings,
    seed: u64,
    outside: Outside,
    journal: Journal,
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

impl App {
    /// Brings a model here, or joins who does, and tells how far it has come. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When the name is none, or is the built-in model's. All else is told as an event.
    pub fn pull(&self, pull: Pull) -> Result<PullEvents, Error> {
        let job = self.pulls.ask(pull, false)?;
        let events = PullEvents::new(self.pulls.clone(), Arc::clone(&job));
        self.pulls.start();
        self.pulls.say_if_it_waits(&job);
        Ok(events)
    }

    /// Brings a model here whether or not anybody watches.
    ///
    /// # Errors
    /// As [`App::pull`].
    pub fn pull_detached(&self, pull: Pull) -> Result<PullRow, Error> {
        let job = self.pulls.ask(pull, true)?;
        self.pulls.start();
        Ok(job.row())
    }

    /// Every model that is on its way, came since the daemon started, or was left, in the order in which they run.
    #[must_use]
    pub fn downloads(&self) -> Vec<PullRow> {
        self.pulls.0.queue().jobs.iter().map(|job| job.row()).collect()
    }

    /// Wakes up whenever [`App::downloads`] changes.
    #[must_use]
    pub fn downloads_changes(&self) -> watch::Receiver<u64> {
        self.pulls.0.changed.subscribe()
    }

    /// How many models are being fetched.
    #[must_use]
    pub fn downloads_working(&self) -> watch::Receiver<usize> {
        self.pulls.0.working.subscribe()
    }

    /// Stops fetching a model until it is resumed, after a restart too. `which` is an id or a name.
    ///
    /// # Errors
    /// When there is no such download.
    pub async fn pause_download(&self, which: &str) -> Result<(), Error> {
        self.pulls.wish_and_wait(which, Wish::Pause).await
    }

    /// Lets one go on that was paused, stopped or failed; whether or not anybody watches, if nobody does now.
    ///
    /// # Errors
    /// When there is no such download.
    pub async fn resume_download(&self, which: &str) -> Result<(), Error> {
        self.pulls.wish_and_wait(which, Wish::Go).await
    }

    /// Stops fetching a model and keeps what came.
    ///
    /// # Errors
    /// When there is no such download.
    pub async fn cancel_download(&self, which: &str) -> Result<(), Error> {
        self.pulls.wish_and_wait(which, Wish::Stop).await
    }

    /// Stops fetching a model and removes what came, unless another download wants the same.
    ///
    /// # Errors
    /// When there is no such download.
    pub async fn discard_download(&self, which: &str) -> Result<(), Error> {
        self.pulls.wish_and_wait(which, Wish::Discard).await
    }

    /// Moves a download to a place in the list, counted from 0.
    ///
    /// # Errors
    /// When there is no such download.
    pub fn reorder_download(&self, which: &str, position: usize) -> Result<(), Error> {
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
        Ok(())
    }

    /// The most bytes per second of all downloads together.
    #[must_use]
    pub fn download_limit(&self) -> Option<u64> {
        *lock(&self.pulls.0.limit_bytes_per_s)
    }

    /// Sets it, until the daemon ends.
    pub fn set_download_limit(&self, bytes_per_s: Option<u64>) {
        let inner = &self.pulls.0;
        *lock(&inner.limit_bytes_per_s) = bytes_per_s;
        if let Some(downloads) = &*lock(&inner.downloads) {
            downloads.set_cap(bytes_per_s);
        }
        inner.changed.send_modify(|count| *count += 1);
    }

    /// Stops all downloads, so that nothing of what came is lost, and leaves them to the next daemon.
    pub async fn rest_downloads(&self) {
        self.pulls.0.ending.send_replace(true);
        let downloads = lock(&self.pulls.0.downloads).clone();
        if let Some(downloads) = downloads {
            downloads.shut_down().await;
        }
    }
}

impl Pulls {
    pub(crate) fn new(library: &Library, settings: &DownloadSettings, clock: &Clock, seed: u64) -> Self {
        Self(Arc::new(Inner {
            library: library.clone(),
            outside: Outside::new(settings.clone(), clock.clone()),
            settings: settings.clone(),
            seed,
            journal: Journal::of(library),
            queue: Mutex::default(),
            downloads: Mutex::default(),
            limit_bytes_per_s: Mutex::new(settings.limit_bytes_per_s),
            changed: watch::Sender::new(0),
            working: watch::Sender::new(0),
            ending: watch::Sender::new(false),
        }))
    }

    /// The registry that a name belongs to.
    pub(crate) fn registry(&self, name: &ModelRef, insecure: bool) -> Result<Registry, PullError> {
        self.0.outside.registry(name, insecure)
    }

    /// Goes on with what an earlier daemon was at. Must be called inside a tokio runtime.
    pub(crate) fn restore(&self) {
        let inner = &self.0;
        let remembered = inner.journal.read();
        if remembered.is_empty() {
            return;
        }
        let downloads = inner.downloads();
        for (name, asked, claim, remembered) in remembered {
            let state = match remembered.state {
                PullState::Queued | PullState::Running => PullState::Queued,
                // It came, and the daemon ended before it could forget that.
                PullState::Done => {
                    inner.journal.remove(&name);
                    continue;
                }
                state => state,
            };
            let job = inner.add(&mut inner.queue(), name, asked, Some(claim));
            let blobs = remembered.blobs.iter().filter_map(|blob| {
                let digest: Digest = blob.digest.parse().ok()?;
                // What it is for makes no difference to where it is.
                let layer = Layer { kind: LayerKind::Model, digest, size_bytes: blob.size };
                Some(work::look_for(&inner.library, downloads.as_ref().ok()?, &layer))
            });
            let blobs = blobs.collect();
            job.change(|view| {
                (view.blobs, view.state) = (blobs, state);
                // Who watched is gone with the daemon; what was at work is still wanted.
                view.detached = remembered.detached || state == PullState::Queued;
                view.error = match state {
                    PullState::Failed => remembered.error.map(PullError::Earlier),
                    PullState::Stopped => Some(PullError::Stopped),
                    _ => None,
                };
            });
            tracing::info!(model = %job.name, ?state, "a download of an earlier time");
        }
        self.start();
    }

    /// The downloads into the library, for those who read what comes while it comes.
    pub(crate) fn downloads(&self) -> Result<Downloads, PullError> {
        self.0.downloads()
    }

    /// The way out to registries.
    pub(crate) fn outside(&self) -> &Outside {
        &self.0.outside
    }

    /// Where models come to.
    pub(crate) fn library(&self) -> &Library {
        &self.0.library
    }

    /// Who is asked for a model.
    pub(crate) fn origins(&self, name: &ModelRef, insecure: bool) -> Result<Origins, PullError> {
        self.0.outside.origins(name, insecure, &[])
    }

    /// Brings a model here whether or not anybody watches. Must be called inside a tokio runtime.
    pub(crate) fn bring(&self, name: &ModelRef, insecure: bool) -> Result<(), Error> {
        self.ask(Pull { name: name.full(), insecure, sources: Vec::new() }, true)?;
        self.start();
        Ok(())
    }

    /// The job of a name, queued if it does not run, with one watcher more unless it is `detached`.
    fn ask(&self, pull: Pull, detached: bool) -> Result<Arc<Job>, Error> {
        let name: ModelRef = pull.name.parse()?;
        if is_pebble(&name) {
            return Err(Error::BuiltIn(pebble::NAME));
        }
        let asked = Asked { name: name.clone(), insecure: pull.insecure, sources: pull.sources };
        let inner = &self.0;
        // Said before anything else, so that one who goes away meanwhile does not take it for abandoned.
        let wanted = |job: &Job| match detached {
            true => job.change(|view| view.detached = true),
            false => job.change(|view| view.watchers += 1),
        };
        let job = {
            let mut queue = inner.queue();
            match queue.jobs.iter().find(|job| job.name == name).cloned() {
                Some(job) => {
                    wanted(&job);
                    let state = job.view().state;
                    if !matches!(state, PullState::Queued | PullState::Running) {
                        // This time it may be asked for in another way.
                        job.change(|view| view.asked = asked);
                        job.claim(|| inner.journal.claim(&job.name));
                        job.queue();
                    } else if *job.wish.borrow() != Wish::Go {
                        // It is about to stop for somebody else; this one wants it.
                        job.wish.send_replace(Wish::Go);
                    }
                    job
                }
                None => {
                    let claim = inner.journal.claim(&name);
                    let job = inner.add(&mut queue, name, asked, claim);
                    wanted(&job);
                    job.queue();
                    job
                }
            }
        };
        inner.note(&job);
        Ok(job)
    }

    /// Does what is wished of a download, and returns when it is done.
    async fn wish_and_wait(&self, which: &str, wish: Wish) -> Result<(), Error> {
        let job = self.0.find(which)?;
        let mut changed = self.0.changed.subscribe();
        self.wish(which, wish)?;
        let pending = || match wish {
            Wish::Go => false,
            Wish::Pause | Wish::Stop => {
                let view = job.view();
                view.state == PullState::Running && !view.publishing
            }
            Wish::Discard => {
                let listed = self.0.queue().jobs.iter().any(|other| other.id == job.id);
                listed && !job.view().publishing
            }
        };
        let settled = async {
            // The sender lives as long as this does.
            while pending() && changed.changed().await.is_ok() {}
        };
        // A disk that does not answer keeps nobody waiting for ever; the wish holds all the same.
        let _ = tokio::time::timeout(STOP_WITHIN, settled).await;
        Ok(())
    }

    /// Does what is wished of a download, or tells the one who works on it.
    fn wish(&self, which: &str, wish: Wish) -> Result<(), Error> {
        let inner = &self.0;
        let job = inner.find(which)?;
        let (state, publishing) = {
            let view = job.view();
            (view.state, view.publishing)
        };
        match (state, wish) {
            // It is all but done, and nothing stops it now.
            (PullState::Running, _) if publishing => {}
            (PullState::Running, wish) => drop(job.wish.send_replace(wish)),
            (PullState::Done, Wish::Discard) => inner.forget(&job),
            (_, Wish::Discard) => {
                let pulls = self.clone();
                tokio::spawn(async move { pulls.0.discard(&job).await });
            }
            (PullState::Paused | PullState::Stopped | PullState::Failed, Wish::Go) => {
                job.queue();
                job.change(|view| view.detached |= view.watchers == 0);
                inner.note(&job);
                self.start();
            }
            (PullState::Queued, Wish::Pause) => inner.rest(&job, PullState::Paused),
            (PullState::Queued | PullState::Paused | PullState::Failed, Wish::Stop) => {
                inner.rest(&job, PullState::Stopped);
            }
            // It is so already.
            _ => {}
        }
        Ok(())
    }

    /// A watcher went away. A job that nobody wants any more stops; that is settled before the next one can ask for it.
    fn leave(&self, job: &Arc<Job>) {
        let ending = *self.0.ending.borrow();
        let rests = job.change(|view| {
            view.watchers = view.watchers.saturating_sub(1);
            let abandoned = view.watchers == 0 && !view.detached && !view.publishing && !ending;
            match view.state {
                PullState::Running if abandoned => drop(job.wish.send_replace(Wish::Stop)),
                PullState::Queued if abandoned => {
                    (view.state, view.error) = (PullState::Stopped, Some(PullError::Stopped));
                    return true;
                }
                _ => {}
            }
            false
        });
        if rests {
            self.0.note(job);
        }
    }

    /// Returns once the daemon ends.
    async fn ending(&self) {
        // The sender lives as long as this does.
        let _ = self.0.ending.subscribe().wait_for(|ending| *ending).await;
    }

    /// Starts what may run.
    fn start(&self) {
        let queue = self.0.queue();
        if *self.0.ending.borrow() {
            return;
        }
        let running = |job: &&Arc<Job>| job.view().state == PullState::Running;
        let mut places = MODELS_AT_ONCE.saturating_sub(queue.jobs.iter().filter(running).count());
        // Those that somebody waits for go before those that nobody watches.
        for waited_for in [true, false] {
            for job in &queue.jobs {
                let next = places > 0
                    && job.change(|view| {
                        let next = view.state == PullState::Queued && (view.watchers > 0) == waited_for;
                        if next {
                            view.state = PullState::Running;
                        }
                        next
                    });
                if next {
                    places -= 1;
                    self.0.working.send_modify(|working| *working += 1);
                    tokio::spawn(self.clone().run(Arc::clone(job)));
                }
            }
        }
    }

    /// Whoever asked should not wonder why nothing happens.
    fn say_if_it_waits(&self, job: &Job) {
        if job.view().state == PullState::Queued {
            let (name, working) = (&job.name, *self.0.working.borrow());
            job.trouble(format!("{name} waits for its turn: {working} other models are being fetched"));
        }
    }

    /// Works on a job until it is done, cannot go on, or is not wanted.
    async fn run(self, job: Arc<Job>) {
        let inner = &self.0;
        inner.note(&job);
        let mut wish = job.wish.subscribe();
        let fetched = tokio::select! {
            fetched = work::fetch(inner, &job) => Some(fetched),
            Ok(_) = wish.wait_for(|wish| *wish != Wish::Go) => None,
        };
        let wish = *job.wish.borrow();
        let ended = match fetched {
            None => None,
            Some(Err(error)) => Some(Err(error)),
            Some(Ok(fetched)) => {
                job.change(|view| view.publishing = true);
                Some(work::publish(inner, &job, fetched).await)
            }
        };
        match ended {
            Some(Ok(())) => {
                // Before anybody hears of the end, so that nothing of it is on the disk by then.
                inner.journal.remove(&job.name);
                job.let_go();
                job.end(PullState::Done, None);
                inner.forget_oldest();
            }
            // Downloads that end because the daemon does are the next one's to go on with.
            Some(Err(_)) if *inner.ending.borrow() => {}
            Some(Err(error)) => {
                tracing::warn!(model = %job.name, %error, "the pull failed");
                job.end(PullState::Failed, Some(error));
                inner.note(&job);
            }
            None => match wish {
                Wish::Pause => inner.rest(&job, PullState::Paused),
                Wish::Stop => inner.rest(&job, PullState::Stopped),
                Wish::Discard => inner.discard(&job).await,
                // Somebody came for it in the moment in which it stopped.
                Wish::Go => {
                    job.queue();
                    inner.note(&job);
                }
            },
        }
        inner.working.send_modify(|working| *working -= 1);
        self.start();
    }
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    fn add(&self, queue: &mut Queue, name: ModelRef, asked: Asked, claim: Option<cairn_disk::Claim>) -> Arc<Job> {
        queue.last_id += 1;
        let job = Arc::new(Job::new(queue.last_id, name, asked, claim, self.changed.clone()));
        queue.jobs.push(Arc::clone(&job));
        job
    }

    /// The job of an id or a name.
    fn find(&self, which: &str) -> Result<Arc<Job>, Error> {
        let (id, name) = (which.trim().parse::<u64>().ok(), which.parse::<ModelRef>().ok());
        let queue = self.queue();
        let by_id = queue.jobs.iter().find(|job| Some(job.id) == id);
        let by_name = || queue.jobs.iter().find(|job| Some(&job.name) == name.as_ref());
        by_id.or_else(by_name).cloned().ok_or_else(|| Error::NoDownload(which.to_owned()))
    }

    /// The downloads into the library, whose folders are made where they are missing.
    fn downloads(&self) -> Result<Downloads, PullError> {
        let mut downloads = lock(&self.downloads);
        if let Some(downloads) = &*downloads {
            return Ok(downloads.clone());
        }
        let mut config = Config { at_once: BLOBS_AT_ONCE, seed: self.seed, ..Config::default() };
        config.cap_bytes_per_s = *lock(&self.limit_bytes_per_s);
        config.reserve_bytes = self.settings.reserve_bytes.unwrap_or(config.reserve_bytes);
        if let Some(stall) = self.settings.stall {
            // All that waits does so in proportion.
            let scale = stall.as_secs_f64() / config.stall.as_secs_f64();
            let scaled = |time: Duration| time.mul_f64(scale);
            config.stall = stall;
            (config.slow_after, config.steal_after) = (scaled(config.slow_after), scaled(config.steal_after));
            (config.backoff, config.longest_backoff) = (scaled(config.backoff), scaled(config.longest_backoff));
            (config.patience, config.poll) = (scaled(config.patience), scaled(config.poll));
        }
        let opened = Downloads::new(&self.library, Arc::new(RealDisk), config);
        let opened = opened.map_err(|error| PullError::Library {
            folder: self.library.root().to_owned(),
            reason: error.to_string(),
        })?;
        *downloads = Some(opened.clone());
        Ok(opened)
    }

    /// Writes down how a job stands.
    fn note(&self, job: &Job) {
        if !job.is_claimed() {
            return;
        }
        let position = self.queue().jobs.iter().position(|other| other.id == job.id).unwrap_or(usize::MAX);
        if let Err(error) = self.journal.write(job, position) {
            tracing::warn!(model = %job.name, %error, "the pull will not be remembered when the daemon ends");
        }
    }

    /// Puts a job to rest.
    fn rest(&self, job: &Job, state: PullState) {
        job.end(state, (state == PullState::Stopped).then_some(PullError::Stopped));
        if state == PullState::Paused {
            job.trouble("paused; `cairn downloads resume` goes on from here".to_owned());
        }
        self.note(job);
    }

    /// Removes what came for a job, and the job.
    async fn discard(&self, job: &Arc<Job>) {
        let digests: Vec<Digest> = job.view().blobs.iter().map(|blob| blob.digest).collect();
        let others: Vec<Arc<Job>> = {
            let queue = self.queue();
            queue.jobs.iter().filter(|other| other.id != job.id).cloned().collect()
        };
        let wanted = |digest: &Digest| {
            let wants = |other: &Arc<Job>| {
                let view = other.view();
                view.state != PullState::Done && view.blobs.iter().any(|blob| blob.digest == *digest)
            };
            others.iter().any(wants)
        };
        match self.downloads() {
            Ok(downloads) => {
                for digest in digests.into_iter().filter(|digest| !wanted(digest)) {
                    remove(&downloads, digest).await;
                }
            }
            Err(error) => tracing::warn!(%error, "what came is not removed"),
        }
        self.forget(job);
        job.end(PullState::Stopped, Some(PullError::Discarded));
    }

    /// Takes a job out of the list.
    fn forget(&self, job: &Arc<Job>) {
        self.journal.remove(&job.name);
        job.let_go();
        self.queue().jobs.retain(|other| other.id != job.id);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Keeps the list of what came short.
    fn forget_oldest(&self) {
        let mut queue = self.queue();
        let done: Vec<u64> =
            queue.jobs.iter().filter(|job| job.view().state == PullState::Done).map(|job| job.id).collect();
        let oldest = &done[..done.len().saturating_sub(DONE_KEPT)];
        queue.jobs.retain(|job| !oldest.contains(&job.id));
    }
}

/// Removes what is kept of one blob. A download of it that was told to stop has let go of it soon.
async fn remove(downloads: &Downloads, digest: Digest) {
    let staging = downloads.staging().clone();
    let deadline = tokio::time::Instant::now() + STOP_WITHIN;
    loop {
        let staging = staging.clone();
        let removed = tokio::task::spawn_blocking(move || staging.discard(&digest)).await;
        match removed.expect("removing does not panic") {
            Ok(_) => return,
            Err(StagingError::InUse(_)) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => return tracing::warn!(%digest, %error, "what came of it is not removed"),
        }
    }
}

/// A panic elsewhere is that one's failure, and not a second one here.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
