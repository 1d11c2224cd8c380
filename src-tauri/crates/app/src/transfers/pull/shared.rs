//! State that all jobs share: the list, the downloads and the journal.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::MutexGuard;
use std::time::Duration;

use cairn_disk::{LockFile, RealDisk};
use cairn_registry::{DownloadConfig, Downloads};
use cairn_store::{Digest, ModelRef, StagingError};

use super::job::{Job, PullRequest};
use super::{Inner, PullError, PullState, Queue, STOP_TIMEOUT};
use crate::transfers::error::Error;

/// Maximum number of parallel downloads: the largest blob of each model, and one small blob.
const BLOBS_AT_ONCE: usize = 4;
/// Maximum number of completed pulls in the list, and of failed or stopped pulls without partial blobs.
const MAX_FINISHED: usize = 20;

impl Inner {
    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    pub(super) fn add(
        &self,
        queue: &mut Queue,
        name: ModelRef,
        request: PullRequest,
        claim: Option<LockFile>,
    ) -> Arc<Job> {
        queue.last_id += 1;
        let job = Arc::new(Job::new(queue.last_id, name, request, claim, self.changed.clone()));
        queue.jobs.push(Arc::clone(&job));
        job
    }

    /// Finds a job by id or name.
    pub(super) fn find(&self, which: &str) -> Result<Arc<Job>, Error> {
        let (id, name) = (which.trim().parse::<u64>().ok(), which.parse::<ModelRef>().ok());
        let queue = self.queue();
        let by_id = queue.jobs.iter().find(|job| Some(job.id) == id);
        let by_name = || queue.jobs.iter().find(|job| Some(&job.name) == name.as_ref());
        by_id.or_else(by_name).cloned().ok_or_else(|| Error::NoDownload(which.to_owned()))
    }

    /// Returns the downloads into the library, and creates their folders if necessary.
    pub(super) fn downloads(&self) -> Result<Downloads, PullError> {
        let mut downloads = self.downloads.lock();
        if let Some(downloads) = &*downloads {
            return Ok(downloads.clone());
        }
        let mut config = DownloadConfig { max_parallel: BLOBS_AT_ONCE, seed: self.seed, ..DownloadConfig::default() };
        config.limit_bytes_per_s = *self.limit_bytes_per_s.lock();
        config.reserve_bytes = self.settings.downloads.reserve_bytes.unwrap_or(config.reserve_bytes);
        if let Some(stall) = self.settings.downloads.stall {
            // All timeouts scale with the stall timeout.
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

    /// Whether the library has a model of that name that was not pulled from its registry.
    pub(super) fn is_local_model(&self, name: &ModelRef) -> bool {
        let stored = self.library.manifest_bytes(name).ok();
        stored.is_some_and(|stored| !self.pulled_manifests.is_unchanged(name, &Digest::of(&stored)))
    }

    /// Writes a job to the journal.
    pub(super) fn save_job(&self, job: &Arc<Job>) {
        let position = self.queue().jobs.iter().position(|other| other.id == job.id);
        // A job that was removed from the list must not be written again.
        if let Some(position) = position {
            self.journal.write(job, position);
        }
    }

    /// Stops or pauses a job that does not run.
    pub(super) fn stop_job(&self, job: &Arc<Job>, state: PullState) {
        job.end(state, (state == PullState::Stopped).then_some(PullError::Stopped));
        if state == PullState::Paused {
            job.problem("paused; `cairn downloads resume` continues it".to_owned());
        }
        self.save_job(job);
    }

    /// Returns those of these blobs that another unfinished job needs.
    pub(super) fn needed_by_other_jobs(&self, job: &Job, digests: &[Digest]) -> HashSet<Digest> {
        let others: Vec<Arc<Job>> = self.queue().jobs.iter().filter(|other| other.id != job.id).cloned().collect();
        digests.iter().filter(|digest| others.iter().any(|other| other.needs(digest))).copied().collect()
    }

    /// Returns the blobs of all queued and running pulls.
    pub(super) fn digests_in_use(&self) -> Vec<Digest> {
        let queue = self.queue();
        let views = queue.jobs.iter().map(|job| job.view());
        let working = views.filter(|view| matches!(view.state, PullState::Queued | PullState::Running));
        working.flat_map(|view| view.blobs.iter().map(|blob| blob.digest).collect::<Vec<_>>()).collect()
    }

    /// Removes a job and its partial blobs.
    pub(super) async fn discard(&self, job: &Arc<Job>) {
        let digests: Vec<Digest> = {
            let view = job.view();
            // Published blobs belong to the library.
            let blobs = view.blobs.iter().filter(|_| view.state != PullState::Done);
            blobs.chain(&view.superseded).map(|blob| blob.digest).collect()
        };
        let needed = self.needed_by_other_jobs(job, &digests);
        match self.downloads() {
            Ok(downloads) => {
                for digest in digests.into_iter().filter(|digest| !needed.contains(digest)) {
                    remove(&downloads, digest).await;
                }
            }
            Err(error) => tracing::warn!(%error, "cannot remove partial blobs"),
        }
        self.journal.remove(job);
        self.journal.flush().await;
        self.forget(job);
        job.end(PullState::Stopped, Some(PullError::Discarded));
    }

    /// Removes a job from the list.
    pub(super) fn forget(&self, job: &Arc<Job>) {
        self.queue().jobs.retain(|other| other.id != job.id);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Limits the list: removes the oldest completed pulls, and the oldest failed or stopped ones without partial
    /// blobs.
    pub(super) fn forget_oldest(&self) {
        let mut queue = self.queue();
        let oldest = |is_finished: fn(PullState) -> bool| {
            let is_removable = |job: &&Arc<Job>| {
                let row = job.row();
                is_finished(row.state) && row.held_bytes == 0 && job.view().watchers == 0
            };
            let mut ids: Vec<u64> = queue.jobs.iter().filter(is_removable).map(|job| job.id).collect();
            ids.sort_unstable();
            ids.truncate(ids.len().saturating_sub(MAX_FINISHED));
            ids
        };
        let mut removed = oldest(|state| state == PullState::Done);
        removed.extend(oldest(|state| matches!(state, PullState::Failed | PullState::Stopped)));
        let (removed, listed): (Vec<_>, Vec<_>) =
            std::mem::take(&mut queue.jobs).into_iter().partition(|job| removed.contains(&job.id));
        queue.jobs = listed;
        removed.iter().for_each(|job| self.journal.remove(job));
    }
}

/// Removes the files of a blob. Retries for a while, because a download that was stopped may still use them.
pub(super) async fn remove(downloads: &Downloads, digest: Digest) {
    let staging = downloads.staging().clone();
    let deadline = tokio::time::Instant::now() + STOP_TIMEOUT;
    loop {
        let staging = staging.clone();
        let removed = tokio::task::spawn_blocking(move || staging.discard(&digest)).await;
        match removed.expect("removing does not panic") {
            Ok(_) => return,
            Err(StagingError::InUse(_)) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => return tracing::warn!(%digest, %error, "cannot remove partial blob"),
        }
    }
}
