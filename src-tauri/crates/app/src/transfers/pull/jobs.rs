//! The queue of pulls: adds, starts, pauses and stops jobs.
//!
//! **Invariant:** whether a job has watchers is decided under the lock of its view. So a watcher that leaves and a
//! watcher that arrives at the same time agree on whether the job stops.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use cairn_disk::RealDisk;
use cairn_registry::{Downloads, Registry};
use cairn_store::{Digest, GarbageFile, Layer, LayerKind, ModelRef, Staging, StagingError};
use tokio::sync::watch;

use super::job::{Intent, Job, PullRequest};
use super::journal::Journal;
use super::origins::{Origins, RegistryAccess};
use super::pulled_manifests::PulledManifests;
use super::{Inner, Pull, PullError, PullState, Pulls, STOP_TIMEOUT, work};
use crate::clock::Clock;
use crate::library::pebble;
use crate::library::{self, ModelLibrary, catalog::is_pebble};
use crate::panics::catch;
use crate::settings::Settings;
use crate::transfers::error::Error;

/// Maximum number of listed pulls. More requests are rejected.
const MAX_DOWNLOADS: usize = 1000;
/// Maximum number of pulls that run at the same time.
const MAX_RUNNING: usize = 3;
/// How often blobs are downloaded again that were removed before the model was published.
const MAX_REFETCHES: u32 = 3;

impl Pulls {
    pub(crate) fn new(models: &ModelLibrary, settings: &Arc<Settings>, clock: &Clock, seed: u64) -> Self {
        let libraries = models.folders();
        let library = libraries.own();
        Self(Arc::new(Inner {
            library: library.clone(),
            others: libraries.others().cloned().collect(),
            models: models.clone(),
            registry_access: RegistryAccess::new(settings.clone(), clock.clone()),
            settings: settings.clone(),
            seed,
            journal: Journal::of(library, Arc::new(RealDisk)),
            pulled_manifests: PulledManifests::of(library),
            queue: Mutex::default(),
            downloads: Mutex::default(),
            limit_bytes_per_s: Mutex::new(settings.downloads.limit_bytes_per_s),
            changed: watch::Sender::new(0),
            working: watch::Sender::new(0),
            shutting_down: watch::Sender::new(false),
        }))
    }

    /// Returns the registry that a name belongs to.
    pub(crate) fn registry(&self, name: &ModelRef, insecure: bool) -> Result<Registry, PullError> {
        self.0.registry_access.registry(name, insecure)
    }

    /// Resumes the pulls of the previous daemon. Must be called inside a tokio runtime.
    pub(crate) fn restore(&self) {
        let inner = &self.0;
        let saved = inner.journal.read();
        if saved.is_empty() {
            return;
        }
        let downloads = inner.downloads();
        for (name, request, claim, saved) in saved {
            let state = match saved.state {
                PullState::Queued | PullState::Running => PullState::Queued,
                // The model is complete, but the daemon ended before it removed the record.
                PullState::Done => {
                    inner.journal.forget(&name);
                    continue;
                }
                state => state,
            };
            let job = inner.add(&mut inner.queue(), name, request, Some(claim));
            let blobs = saved.blobs.iter().filter_map(|blob| {
                let digest: Digest = blob.digest.parse().ok()?;
                // The kind does not affect where a blob is stored.
                let layer = Layer { kind: LayerKind::Model, digest, size_bytes: blob.size };
                Some(work::find_blob(&inner.library, downloads.as_ref().ok()?, &layer))
            });
            let blobs = blobs.collect();
            job.change(|view| {
                view.blobs.replace(blobs);
                view.state = state;
                // Watchers ended with the previous daemon. A pull that ran must continue without them.
                view.detached = saved.detached || state == PullState::Queued;
                view.error = match state {
                    PullState::Failed => saved.error.map(PullError::Earlier),
                    PullState::Stopped => Some(PullError::Stopped),
                    _ => None,
                };
            });
            tracing::info!(model = %job.name, ?state, "restored a pull of the previous daemon");
        }
        self.start();
    }

    /// Returns the downloads into the library, for clients that read a blob while it is downloaded.
    pub(crate) fn downloads(&self) -> Result<Downloads, PullError> {
        self.0.downloads()
    }

    /// Returns the connections to registries.
    pub(crate) fn registry_access(&self) -> &RegistryAccess {
        &self.0.registry_access
    }

    /// Returns the library that models are pulled into.
    pub(crate) fn library(&self) -> &cairn_store::Library {
        &self.0.library
    }

    /// Returns the sources of a model.
    pub(crate) fn origins(&self, name: &ModelRef, insecure: bool) -> Result<Origins, PullError> {
        self.0.registry_access.origins(name, insecure, &[])
    }

    /// Returns the model of a queued or running pull that has this blob, the blob's size, and whether plain http is
    /// allowed.
    pub(crate) fn find_active_download(&self, digest: &Digest) -> Option<(ModelRef, u64, bool)> {
        let queue = self.0.queue();
        let mut working =
            queue.jobs.iter().filter(|job| matches!(job.view().state, PullState::Queued | PullState::Running));
        working.find_map(|job| {
            let view = job.view();
            let blob = view.blobs.get(digest)?;
            Some((job.name.clone(), blob.size_bytes, view.request.insecure))
        })
    }

    /// Returns the blobs of all queued and running pulls. Those in the library must not be removed, because they are
    /// not downloaded.
    pub(crate) fn digests_in_use(&self) -> Vec<Digest> {
        self.0.digests_in_use()
    }

    /// Removes partial blobs that no pull of this or another daemon resumes, and returns them. With `dry_run`, removes
    /// nothing. Blocks.
    pub(crate) fn clear_leftovers(&self, dry_run: bool) -> Result<Vec<GarbageFile>, StagingError> {
        let inner = &self.0;
        // The journal may lag behind the list, so the list is read first.
        let jobs = inner.queue().jobs.clone();
        let stored: HashSet<Digest> = inner.journal.digests().into_iter().collect();
        let wanted = |digest: &Digest| stored.contains(digest) || jobs.iter().any(|job| job.needs(digest));
        let opened = inner.downloads.lock().as_ref().map(|downloads| downloads.staging().clone());
        let staging = match opened {
            Some(staging) => staging,
            None => Staging::open(&inner.library, Arc::new(RealDisk))?,
        };
        let mut left = staging.abandoned_blobs(wanted);
        if !dry_run {
            // A blob that was requested again since then is in use, so it stays.
            left.retain(|(digest, _)| staging.discard(digest).is_ok());
            let removed: HashSet<Digest> = left.iter().map(|(digest, _)| *digest).collect();
            jobs.iter().for_each(|job| job.remove_superseded(&removed));
        }
        Ok(left.into_iter().map(|(_, leftover)| leftover).collect())
    }

    /// Whether clients may cause a pull that replaces this manifest: only if the name's registry supplied it.
    pub(crate) fn may_replace(&self, name: &ModelRef, manifest: &Digest) -> bool {
        self.0.pulled_manifests.is_unchanged(name, manifest)
    }

    /// Pulls a model for clients of the mirror, detached. Must be called inside a tokio runtime.
    pub(crate) fn pull_for_clients(&self, name: &ModelRef, insecure: bool) -> Result<(), Error> {
        self.enqueue(Pull { name: name.full(), insecure, ..Pull::default() }, true, true)?;
        self.start();
        Ok(())
    }

    /// Returns the job of a name and queues it unless it runs. Adds a watcher unless `detached`.
    pub(super) fn enqueue(&self, pull: Pull, detached: bool, for_clients: bool) -> Result<Arc<Job>, Error> {
        let name: ModelRef = pull.name.parse()?;
        if is_pebble(&name) {
            return Err(library::Error::BuiltIn(pebble::NAME).into());
        }
        let Pull { insecure, sources, force, .. } = pull;
        let request = PullRequest { name: name.clone(), insecure, sources, for_clients, force };
        let inner = &self.0;
        // Register interest first: otherwise a watcher that leaves now would stop the job.
        let register = |job: &Job| match detached {
            true => job.change(|view| view.detached = true),
            false => job.change(|view| view.watchers += 1),
        };
        let job = {
            let mut queue = inner.queue();
            match queue.jobs.iter().find(|job| job.name == name).cloned() {
                Some(job) => {
                    register(&job);
                    // A pull that a user requests too is not for clients only.
                    job.change(|view| {
                        view.request.for_clients &= for_clients;
                        view.request.force |= force;
                    });
                    let state = job.view().state;
                    if !matches!(state, PullState::Queued | PullState::Running) {
                        // The new request may have other parameters.
                        job.change(|view| view.request = request);
                        job.queue();
                    } else if *job.intent.borrow() != Intent::Run {
                        // The job was about to stop, but is needed again.
                        job.intent.send_replace(Intent::Run);
                    }
                    job
                }
                None => {
                    if queue.jobs.len() >= MAX_DOWNLOADS {
                        return Err(PullError::TooMany(MAX_DOWNLOADS).into());
                    }
                    let job = inner.add(&mut queue, name, request, None);
                    register(&job);
                    job.queue();
                    job
                }
            }
        };
        inner.save_job(&job);
        Ok(job)
    }

    /// Sets the intent of a download and waits until it is in effect.
    pub(super) async fn set_intent_and_wait(&self, which: &str, intent: Intent) -> Result<(), Error> {
        let job = self.0.find(which)?;
        let mut changed = self.0.changed.subscribe();
        self.set_intent(which, intent)?;
        let pending = || match intent {
            Intent::Run => false,
            Intent::Pause | Intent::Stop => {
                let view = job.view();
                view.state == PullState::Running && !view.publishing
            }
            Intent::Discard => {
                let listed = self.0.queue().jobs.iter().any(|other| other.id == job.id);
                listed && !job.view().publishing
            }
        };
        let settled = async {
            // The sender lives as long as `self`.
            while pending() && changed.changed().await.is_ok() {}
        };
        let saved = async {
            settled.await;
            self.0.journal.flush().await;
        };
        // Do not wait forever for a hung disk. The intent is in effect anyway.
        let _ = tokio::time::timeout(STOP_TIMEOUT, saved).await;
        Ok(())
    }

    /// Sets the intent of a download: applies it, or signals the worker.
    pub(super) fn set_intent(&self, which: &str, intent: Intent) -> Result<(), Error> {
        let inner = &self.0;
        let job = inner.find(which)?;
        let (state, publishing) = {
            let view = job.view();
            (view.state, view.publishing)
        };
        match (state, intent) {
            // Publishing cannot be interrupted.
            (PullState::Running, _) if publishing => {}
            (PullState::Running, intent) => drop(job.intent.send_replace(intent)),
            (PullState::Done, Intent::Discard) if job.view().superseded.is_empty() => inner.forget(&job),
            (PullState::Done, Intent::Run | Intent::Pause | Intent::Stop) => {
                return Err(Error::DownloadDone(job.name.to_string()));
            }
            (_, Intent::Discard) => {
                let pulls = self.clone();
                tokio::spawn(async move { pulls.0.discard(&job).await });
            }
            (PullState::Paused | PullState::Stopped | PullState::Failed, Intent::Run) => {
                job.queue();
                job.change(|view| view.detached |= view.watchers == 0);
                inner.save_job(&job);
                self.start();
            }
            (PullState::Queued, Intent::Pause) => inner.stop_job(&job, PullState::Paused),
            (PullState::Queued | PullState::Paused | PullState::Failed, Intent::Stop) => {
                inner.stop_job(&job, PullState::Stopped);
            }
            // Nothing to change.
            _ => {}
        }
        Ok(())
    }

    /// Removes a watcher. Stops a job that has no watcher left and is not detached.
    pub(super) fn remove_watcher(&self, job: &Arc<Job>) {
        let shutting_down = *self.0.shutting_down.borrow();
        let stopped = job.change(|view| {
            view.watchers = view.watchers.saturating_sub(1);
            let abandoned = view.watchers == 0 && !view.detached && !view.publishing && !shutting_down;
            match view.state {
                PullState::Running if abandoned => drop(job.intent.send_replace(Intent::Stop)),
                PullState::Queued if abandoned => {
                    (view.state, view.error) = (PullState::Stopped, Some(PullError::Stopped));
                    return true;
                }
                _ => {}
            }
            false
        });
        if stopped {
            self.0.save_job(job);
        }
    }

    /// Waits until the daemon shuts down.
    pub(super) async fn shutting_down(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.shutting_down.subscribe().wait_for(|shutting_down| *shutting_down).await;
    }

    /// Starts queued jobs up to the maximum.
    pub(super) fn start(&self) {
        let queue = self.0.queue();
        if *self.0.shutting_down.borrow() {
            return;
        }
        let running = |job: &&Arc<Job>| job.view().state == PullState::Running;
        let mut free = MAX_RUNNING.saturating_sub(queue.jobs.iter().filter(running).count());
        // Jobs with watchers start first.
        for has_watchers in [true, false] {
            for job in &queue.jobs {
                let next = free > 0
                    && job.change(|view| {
                        let next = view.state == PullState::Queued && (view.watchers > 0) == has_watchers;
                        if next {
                            view.state = PullState::Running;
                        }
                        next
                    });
                if next {
                    free -= 1;
                    self.0.working.send_modify(|working| *working += 1);
                    tokio::spawn(self.clone().run(Arc::clone(job)));
                }
            }
        }
    }

    /// Sends watchers a line if the job has to wait.
    pub(super) fn report_queue_position(&self, job: &Job) {
        if job.view().state == PullState::Queued {
            let (name, working) = (&job.name, *self.0.working.borrow());
            job.problem(format!("{name} is queued: {working} other models are being pulled"));
        }
    }

    /// Runs a job until it is complete, fails or is stopped.
    pub(super) async fn run(self, job: Arc<Job>) {
        let inner = &self.0;
        inner.save_job(&job);
        let mut intent = job.intent.subscribe();
        let mut refetches = MAX_REFETCHES;
        let ended = loop {
            let fetched = tokio::select! {
                fetched = catch(work::fetch(inner, &job)) => fetched,
                Ok(_) = intent.wait_for(|intent| *intent != Intent::Run) => break None,
            };
            let published = match fetched {
                Ok(Ok(fetched)) => {
                    job.change(|view| view.publishing = true);
                    catch(work::publish(inner, &job, fetched)).await.unwrap_or_else(|panicked| Err(panicked.into()))
                }
                Ok(Err(error)) => Err(error),
                Err(panicked) => Err(panicked.into()),
            };
            match published {
                // Another program may have removed a blob that existed when the work began.
                Err(PullError::Lost { digest }) if refetches > 0 && !*inner.shutting_down.borrow() => {
                    refetches -= 1;
                    job.change(|view| view.publishing = false);
                    job.problem(format!("{digest} was removed during the pull; downloading it again"));
                }
                ended => break Some(ended),
            }
        };
        let intent = *job.intent.borrow();
        match ended {
            Some(Ok(())) => {
                // Remove the record before watchers see the end.
                inner.journal.remove(&job);
                inner.journal.flush().await;
                job.end(PullState::Done, None);
                inner.forget_oldest();
            }
            // The next daemon resumes pulls that a shutdown interrupted.
            Some(Err(_)) if *inner.shutting_down.borrow() => {}
            Some(Err(error)) => {
                tracing::warn!(model = %job.name, %error, "pull failed");
                job.end(PullState::Failed, Some(error));
                inner.save_job(&job);
                inner.forget_oldest();
            }
            None => match intent {
                Intent::Pause => inner.stop_job(&job, PullState::Paused),
                Intent::Stop => inner.stop_job(&job, PullState::Stopped),
                Intent::Discard => inner.discard(&job).await,
                // The job was requested again while it stopped.
                Intent::Run => {
                    job.queue();
                    inner.save_job(&job);
                }
            },
        }
        inner.working.send_modify(|working| *working -= 1);
        self.start();
    }
}
