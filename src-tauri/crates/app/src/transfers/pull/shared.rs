//! What all jobs share: their list, the downloads beneath them, and what is remembered for the next daemon.

use std::sync::Arc;

use parking_lot::MutexGuard;
use std::time::Duration;

use cairn_disk::{LockFile, RealDisk};
use cairn_registry::{DownloadConfig, Downloads};
use cairn_store::{Digest, ModelRef, StagingError};

use super::job::{Asked, Job};
use super::{Inner, PullError, PullState, Queue, STOP_WITHIN};
use crate::transfers::error::Error;

/// Blobs that are fetched at the same time: the largest of each model, and one of its small ones.
const BLOBS_AT_ONCE: usize = 4;
/// Models that came and are still in the list; and as many that did not, of which nothing is here.
const OVER_KEPT: usize = 20;

impl Inner {
    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    pub(super) fn add(&self, queue: &mut Queue, name: ModelRef, asked: Asked, claim: Option<LockFile>) -> Arc<Job> {
        queue.last_id += 1;
        let job = Arc::new(Job::new(queue.last_id, name, asked, claim, self.changed.clone()));
        queue.jobs.push(Arc::clone(&job));
        job
    }

    /// The job of an id or a name.
    pub(super) fn find(&self, which: &str) -> Result<Arc<Job>, Error> {
        let (id, name) = (which.trim().parse::<u64>().ok(), which.parse::<ModelRef>().ok());
        let queue = self.queue();
        let by_id = queue.jobs.iter().find(|job| Some(job.id) == id);
        let by_name = || queue.jobs.iter().find(|job| Some(&job.name) == name.as_ref());
        by_id.or_else(by_name).cloned().ok_or_else(|| Error::NoDownload(which.to_owned()))
    }

    /// The downloads into the library, whose folders are made where they are missing.
    pub(super) fn downloads(&self) -> Result<Downloads, PullError> {
        let mut downloads = self.downloads.lock();
        if let Some(downloads) = &*downloads {
            return Ok(downloads.clone());
        }
        let mut config = DownloadConfig { max_parallel: BLOBS_AT_ONCE, seed: self.seed, ..DownloadConfig::default() };
        config.limit_bytes_per_s = *self.limit_bytes_per_s.lock();
        config.reserve_bytes = self.settings.downloads.reserve_bytes.unwrap_or(config.reserve_bytes);
        if let Some(stall) = self.settings.downloads.stall {
            // All that waits does so in proportion.
            let scale = stall.as_secs_f64() / config.stall_timeout.as_secs_f64();
            let scaled = |time: Duration| time.mul_f64(scale);
            config.stall_timeout = stall;
            (config.slow_after, config.steal_after) = (scaled(config.slow_after), scaled(config.steal_after));
            config.lease_duration = scaled(config.lease_duration);
            (config.backoff, config.max_backoff) = (scaled(config.backoff), scaled(config.max_backoff));
            (config.max_retry_after, config.poll_interval) =
                (scaled(config.max_retry_after), scaled(config.poll_interval));
        }
        let opened = Downloads::new(&self.library, Arc::new(RealDisk), config);
        let opened = opened.map_err(|error| PullError::Library {
            folder: self.library.root().to_owned(),
            reason: error.to_string(),
        })?;
        *downloads = Some(opened.clone());
        Ok(opened)
    }

    /// Is there something of that name in the library which did not come from its registry?
    pub(super) fn made_here(&self, name: &ModelRef) -> bool {
        let stored = self.library.manifest_bytes(name).ok();
        stored.is_some_and(|stored| !self.brought.is_as_it_came(name, &Digest::of(&stored)))
    }

    /// Writes down how a job stands.
    pub(super) fn note(&self, job: &Arc<Job>) {
        let position = self.queue().jobs.iter().position(|other| other.id == job.id);
        // One that is not in the list any more is to be forgotten.
        if let Some(position) = position {
            self.journal.write(job, position);
        }
    }

    /// Puts a job to rest.
    pub(super) fn rest(&self, job: &Arc<Job>, state: PullState) {
        job.end(state, (state == PullState::Stopped).then_some(PullError::Stopped));
        if state == PullState::Paused {
            job.trouble("paused; `cairn downloads resume` goes on from here".to_owned());
        }
        self.note(job);
    }

    /// Does another job want it that is not done?
    pub(super) fn wanted_elsewhere(&self, job: &Job, digest: &Digest) -> bool {
        let others: Vec<Arc<Job>> = self.queue().jobs.iter().filter(|other| other.id != job.id).cloned().collect();
        others.iter().any(|other| other.wants(digest))
    }

    /// The contents of everything that is being fetched.
    pub(super) fn counted_on(&self) -> Vec<Digest> {
        let queue = self.queue();
        let views = queue.jobs.iter().map(|job| job.view());
        let working = views.filter(|view| matches!(view.state, PullState::Queued | PullState::Running));
        working.flat_map(|view| view.blobs.iter().map(|blob| blob.digest).collect::<Vec<_>>()).collect()
    }

    /// Removes what came for a job, and the job.
    pub(super) async fn discard(&self, job: &Arc<Job>) {
        let digests: Vec<Digest> = {
            let view = job.view();
            // What has its place in the library is not the download's any more.
            let blobs = view.blobs.iter().filter(|_| view.state != PullState::Done);
            blobs.chain(&view.superseded).map(|blob| blob.digest).collect()
        };
        match self.downloads() {
            Ok(downloads) => {
                for digest in digests.into_iter().filter(|digest| !self.wanted_elsewhere(job, digest)) {
                    remove(&downloads, digest).await;
                }
            }
            Err(error) => tracing::warn!(%error, "what came is not removed"),
        }
        self.journal.remove(job);
        self.journal.settled().await;
        self.forget(job);
        job.end(PullState::Stopped, Some(PullError::Discarded));
    }

    /// Takes a job out of the list.
    pub(super) fn forget(&self, job: &Arc<Job>) {
        self.queue().jobs.retain(|other| other.id != job.id);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Keeps the list short: of what came, and of what failed or was stopped and holds nothing, only the newest stay.
    pub(super) fn forget_oldest(&self) {
        let mut queue = self.queue();
        let of = |over: fn(PullState) -> bool| {
            let is_over = |job: &&Arc<Job>| {
                let row = job.row();
                over(row.state) && row.held_bytes == 0 && job.view().watchers == 0
            };
            let mut ids: Vec<u64> = queue.jobs.iter().filter(is_over).map(|job| job.id).collect();
            ids.sort_unstable();
            ids.truncate(ids.len().saturating_sub(OVER_KEPT));
            ids
        };
        let mut oldest = of(|state| state == PullState::Done);
        oldest.extend(of(|state| matches!(state, PullState::Failed | PullState::Stopped)));
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut queue.jobs).into_iter().partition(|job| oldest.contains(&job.id));
        queue.jobs = kept;
        gone.iter().for_each(|job| self.journal.remove(job));
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
