//! Which models are on their way, which of them run, and what their users wish.
//!
//! **Invariant:** whether anybody wants a job is settled under the lock of its view, so that one who goes away and one who
//! comes at the same moment agree on whether it goes on.

use std::sync::Arc;

use parking_lot::Mutex;

use cairn_disk::RealDisk;
use cairn_registry::{Downloads, Registry};
use cairn_store::{Digest, GarbageFile, Layer, LayerKind, Libraries, ModelRef, Staging, StagingError};
use tokio::sync::watch;

use super::brought::Brought;
use super::job::{Asked, Job, Wish};
use super::journal::Journal;
use super::origins::{Origins, Outside};
use super::{Inner, Pull, PullError, PullState, Pulls, STOP_WITHIN, work};
use crate::clock::Clock;
use crate::library::pebble;
use crate::library::{self, catalog::is_pebble};
use crate::settings::Settings;
use crate::transfers::error::Error;

/// Models in the list; whoever asks for more is refused.
const MAX_LISTED: usize = 1000;
/// Models that are fetched at the same time; the others wait.
const MODELS_AT_ONCE: usize = 3;
/// How often contents are fetched that were here and were removed before the model had its name.
const FETCHED_AGAIN: u32 = 3;

impl Pulls {
    pub(crate) fn new(libraries: &Libraries, settings: &Arc<Settings>, clock: &Clock, seed: u64) -> Self {
        let library = libraries.own();
        Self(Arc::new(Inner {
            library: library.clone(),
            others: libraries.others().cloned().collect(),
            outside: Outside::new(settings.clone(), clock.clone()),
            settings: settings.clone(),
            seed,
            journal: Journal::of(library, Arc::new(RealDisk)),
            brought: Brought::of(library),
            queue: Mutex::default(),
            downloads: Mutex::default(),
            limit_bytes_per_s: Mutex::new(settings.downloads.limit_bytes_per_s),
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
                    inner.journal.forget(&name);
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
    pub(crate) fn library(&self) -> &cairn_store::Library {
        &self.0.library
    }

    /// Who is asked for a model.
    pub(crate) fn origins(&self, name: &ModelRef, insecure: bool) -> Result<Origins, PullError> {
        self.0.outside.origins(name, insecure, &[])
    }

    /// Which model is being fetched that has these contents, how long they are, and whether it comes over plain http.
    pub(crate) fn on_its_way(&self, digest: &Digest) -> Option<(ModelRef, u64, bool)> {
        let queue = self.0.queue();
        let mut working =
            queue.jobs.iter().filter(|job| matches!(job.view().state, PullState::Queued | PullState::Running));
        working.find_map(|job| {
            let view = job.view();
            let blob = view.blobs.iter().find(|blob| blob.digest == *digest)?;
            Some((job.name.clone(), blob.size_bytes, view.asked.insecure))
        })
    }

    /// The contents of models that are being fetched: some of them may be in the library already, and are not fetched.
    pub(crate) fn counted_on(&self) -> Vec<Digest> {
        self.0.counted_on()
    }

    /// Removes what is left of downloads that nobody goes on with, here or in another daemon of the library, and tells what
    /// it was; with `dry_run` it only tells. Blocks.
    pub(crate) fn clear_leftovers(&self, dry_run: bool) -> Result<Vec<GarbageFile>, StagingError> {
        let inner = &self.0;
        // What is not written down yet is in the list.
        let jobs = inner.queue().jobs.clone();
        let named = inner.journal.named();
        let wanted = |digest: &Digest| named.contains(digest) || jobs.iter().any(|job| job.wants(digest));
        let opened = inner.downloads.lock().as_ref().map(|downloads| downloads.staging().clone());
        let staging = match opened {
            Some(staging) => staging,
            None => Staging::open(&inner.library, Arc::new(RealDisk))?,
        };
        let mut left = staging.abandoned_blobs(wanted);
        if !dry_run {
            // One that somebody fetches again since is not left any more.
            left.retain(|(digest, _)| staging.discard(digest).is_ok());
            let removed: Vec<Digest> = left.iter().map(|(digest, _)| *digest).collect();
            jobs.iter().for_each(|job| job.superseded_is_gone(&removed));
        }
        Ok(left.into_iter().map(|(_, leftover)| leftover).collect())
    }

    /// May clients have what a name stands for here replaced by what its registry says? Not where it was made here.
    pub(crate) fn may_replace(&self, name: &ModelRef, manifest: &Digest) -> bool {
        self.0.brought.is_as_it_came(name, manifest)
    }

    /// Brings a model here for clients of this machine's registry, whether or not anybody watches. Must be called inside a tokio runtime.
    pub(crate) fn bring(&self, name: &ModelRef, insecure: bool) -> Result<(), Error> {
        self.ask(Pull { name: name.full(), insecure, sources: Vec::new() }, true, true)?;
        self.start();
        Ok(())
    }

    /// The job of a name, queued if it does not run, with one watcher more unless it is `detached`.
    pub(super) fn ask(&self, pull: Pull, detached: bool, for_clients: bool) -> Result<Arc<Job>, Error> {
        let name: ModelRef = pull.name.parse()?;
        if is_pebble(&name) {
            return Err(library::Error::BuiltIn(pebble::NAME).into());
        }
        let asked = Asked { name: name.clone(), insecure: pull.insecure, sources: pull.sources, for_clients };
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
                    // What a user wants too is not for clients only.
                    job.change(|view| view.asked.for_clients &= for_clients);
                    let state = job.view().state;
                    if !matches!(state, PullState::Queued | PullState::Running) {
                        // This time it may be asked for in another way.
                        job.change(|view| view.asked = asked);
                        job.queue();
                    } else if *job.wish.borrow() != Wish::Go {
                        // It is about to stop for somebody else; this one wants it.
                        job.wish.send_replace(Wish::Go);
                    }
                    job
                }
                None => {
                    if queue.jobs.len() >= MAX_LISTED {
                        return Err(PullError::TooMany(MAX_LISTED).into());
                    }
                    let job = inner.add(&mut queue, name, asked, None);
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
    pub(super) async fn wish_and_wait(&self, which: &str, wish: Wish) -> Result<(), Error> {
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
        let kept = async {
            settled.await;
            self.0.journal.settled().await;
        };
        // A disk that does not answer keeps nobody waiting for ever; the wish holds all the same.
        let _ = tokio::time::timeout(STOP_WITHIN, kept).await;
        Ok(())
    }

    /// Does what is wished of a download, or tells the one who works on it.
    pub(super) fn wish(&self, which: &str, wish: Wish) -> Result<(), Error> {
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
            (PullState::Done, Wish::Discard) if job.view().superseded.is_empty() => inner.forget(&job),
            (PullState::Done, Wish::Go | Wish::Pause | Wish::Stop) => {
                return Err(Error::DownloadDone(job.name.to_string()));
            }
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
    pub(super) fn leave(&self, job: &Arc<Job>) {
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
    pub(super) async fn ending(&self) {
        // The sender lives as long as this does.
        let _ = self.0.ending.subscribe().wait_for(|ending| *ending).await;
    }

    /// Starts what may run.
    pub(super) fn start(&self) {
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
    pub(super) fn say_if_it_waits(&self, job: &Job) {
        if job.view().state == PullState::Queued {
            let (name, working) = (&job.name, *self.0.working.borrow());
            job.trouble(format!("{name} waits for its turn: {working} other models are being fetched"));
        }
    }

    /// Works on a job until it is done, cannot go on, or is not wanted.
    pub(super) async fn run(self, job: Arc<Job>) {
        let inner = &self.0;
        inner.note(&job);
        let mut wish = job.wish.subscribe();
        let mut again = FETCHED_AGAIN;
        let ended = loop {
            let fetched = tokio::select! {
                fetched = work::fetch(inner, &job) => fetched,
                Ok(_) = wish.wait_for(|wish| *wish != Wish::Go) => break None,
            };
            let published = match fetched {
                Ok(fetched) => {
                    job.change(|view| view.publishing = true);
                    work::publish(inner, &job, fetched).await
                }
                Err(error) => Err(error),
            };
            match published {
                // Another program of the library may remove what was here when the work began.
                Err(PullError::Lost { digest }) if again > 0 && !*inner.ending.borrow() => {
                    again -= 1;
                    job.change(|view| view.publishing = false);
                    job.trouble(format!("{digest} was removed while the rest of the model came, and is fetched again"));
                }
                ended => break Some(ended),
            }
        };
        let wish = *job.wish.borrow();
        match ended {
            Some(Ok(())) => {
                // Before anybody hears of the end, so that nothing of it is on the disk by then.
                inner.journal.remove(&job);
                inner.journal.settled().await;
                job.end(PullState::Done, None);
                inner.forget_oldest();
            }
            // Downloads that end because the daemon does are the next one's to go on with.
            Some(Err(_)) if *inner.ending.borrow() => {}
            Some(Err(error)) => {
                tracing::warn!(model = %job.name, %error, "the pull failed");
                job.end(PullState::Failed, Some(error));
                inner.note(&job);
                inner.forget_oldest();
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
