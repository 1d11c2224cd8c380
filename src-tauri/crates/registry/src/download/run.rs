//! One run of a download: claims the blob, downloads the missing ranges, verifies the digest, and stages or deletes the
//! data. Restarts from the beginning after a digest mismatch.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, Ranges, StagedBlob, StagingError};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::Instant;

use super::corruption::CorruptionTracker;
use super::error::{DownloadError, DownloadNotice};
use super::health::Health;
use super::spool::{self, Spool};
use super::state::State;
use super::stream::{self, Shared};
use super::{BlobProgress, CompletedBlob, DownloadContext, DownloadControl, DownloadOutcome, DownloadSpec, Phase};

/// Interval of progress updates.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(60);

/// A completely received blob and its digest.
struct Hashed {
    got: Digest,
    staged: StagedBlob,
    /// Ranges received from each source.
    supplied: Vec<Ranges>,
}

/// Downloads a blob until it is complete, has failed, or is stopped.
pub(crate) async fn fetch(
    context: &Arc<DownloadContext>,
    spec: &DownloadSpec,
    control: &mut DownloadControl,
) -> Result<DownloadOutcome, DownloadError> {
    let ended = attempts(context, spec, control).await;
    context.disk_space.release(&spec.digest);
    ended.map_err(|error| context.disk_space.map_disk_error(error))
}

async fn attempts(
    context: &Arc<DownloadContext>,
    spec: &DownloadSpec,
    control: &mut DownloadControl,
) -> Result<DownloadOutcome, DownloadError> {
    let mut corruption = CorruptionTracker::default();
    let mut reported = 0;
    let report_wrong = |corruption: &CorruptionTracker, reported: &mut usize, control: &DownloadControl| {
        for host in hosts(spec, corruption.wrong.get(*reported..).unwrap_or_default()) {
            (control.on_notice)(DownloadNotice::WrongBytes { host, digest: spec.digest });
        }
        *reported = corruption.wrong.len();
    };
    // Each failed attempt but the first identifies one more source of wrong bytes.
    loop {
        let Some(staged) = claim(context, spec, control).await? else {
            let stopped = *control.stop.borrow();
            return Ok(if stopped {
                DownloadOutcome::Stopped
            } else {
                DownloadOutcome::Completed(present(context, spec)?)
            });
        };
        let earlier = staged.durable().clone();
        let left_bytes = spec.size_bytes - earlier.total_bytes();
        context.disk_space.reserve(spec.digest, left_bytes)?;
        let hashed = attempt(context, spec, control, staged, &corruption).await?;
        let Some(Hashed { got, staged, supplied }) = hashed else { return Ok(DownloadOutcome::Stopped) };
        let is_correct = got == spec.digest;
        let (updated, ended) = blocking(move || {
            let file = staged.file();
            if is_correct {
                corruption.confirm(&*file)?;
                return Ok((corruption, Ok(staged.finish()?)));
            }
            let again = corruption.mismatch(&*file, &supplied, &earlier)?;
            staged.discard()?;
            Ok((corruption, Err(again)))
        })
        .await?;
        corruption = updated;
        report_wrong(&corruption, &mut reported, control);
        match ended {
            Ok(path) => {
                let wrong_hosts = hosts(spec, &corruption.wrong);
                let (digest, size_bytes) = (spec.digest, spec.size_bytes);
                return Ok(DownloadOutcome::Completed(CompletedBlob {
                    digest,
                    size_bytes,
                    path,
                    present: false,
                    wrong_hosts,
                }));
            }
            Err(Some(again)) => {
                let again = hosts(spec, &[again]).join("");
                (control.on_notice)(DownloadNotice::Mismatch { again });
                control.progress.send_modify(|progress| {
                    progress.attempt += 1;
                    (progress.held_bytes, progress.prefix_bytes, progress.written) = (0, 0, Ranges::new());
                });
            }
            Err(None) => {
                let hosts = hosts(spec, &corruption.wrong);
                return Err(DownloadError::Mismatch { want: spec.digest, got, hosts });
            }
        }
    }
}

/// Claims the blob for this process. `None` if it exists already, or the download was stopped.
async fn claim(
    context: &Arc<DownloadContext>,
    spec: &DownloadSpec,
    control: &mut DownloadControl,
) -> Result<Option<StagedBlob>, DownloadError> {
    let mut waiting = false;
    loop {
        let (shared_context, digest, size_bytes) = (Arc::clone(context), spec.digest, spec.size_bytes);
        let claimed = blocking(move || {
            // Claim first: the previous owner may have just finished.
            let claimed = shared_context.staging.claim(&digest, size_bytes);
            match file_of(&shared_context, &digest, size_bytes) {
                Some(_) => {
                    if let Ok(staged) = claimed {
                        staged.discard()?;
                    }
                    Ok(Ok(None))
                }
                None => match claimed {
                    Err(StagingError::InUse(_)) => Ok(Err(shared_context.staging.durable_bytes(&digest))),
                    claimed => Ok(Ok(Some(claimed?))),
                },
            }
        })
        .await?;
        match claimed {
            Ok(claimed) => return Ok(claimed),
            Err(held_bytes) => {
                if !std::mem::replace(&mut waiting, true) {
                    (control.on_notice)(DownloadNotice::OtherProcess);
                }
                control.progress.send_modify(|progress| {
                    progress.phase = Phase::OtherProcess;
                    progress.held_bytes = progress.held_bytes.max(held_bytes);
                });
                tokio::select! {
                    () = tokio::time::sleep(context.config.poll_interval) => {}
                    () = stopped(&mut control.stop) => return Ok(None),
                }
            }
        }
    }
}

/// Downloads the missing ranges and computes the digest. `None` if it was stopped.
async fn attempt(
    context: &Arc<DownloadContext>,
    spec: &DownloadSpec,
    control: &mut DownloadControl,
    staged: StagedBlob,
    corruption: &CorruptionTracker,
) -> Result<Option<Hashed>, DownloadError> {
    let (digest, size_bytes, config) = (spec.digest, spec.size_bytes, Arc::clone(&context.config));
    let health = Health::new(&spec.sources, Arc::clone(&config), &corruption.wrong, corruption.alone);
    let mut state = State::new(digest, size_bytes, staged.durable().clone(), health, Arc::clone(&config));
    state.read_positions = Arc::clone(&spec.read_positions);
    let mut limit = spec.limit.changes();
    state.plan.limit(*limit.borrow_and_update());
    let disk_space = Arc::clone(&context.disk_space);
    let spool =
        Spool::start(staged, size_bytes, Arc::clone(&context.write_budget), Box::new(move || disk_space.check()));
    let mut view = spool.view();
    let shared = Arc::new(Shared {
        digest,
        size_bytes,
        state: state.into(),
        spool,
        throttle: Arc::clone(&context.throttle),
        piece_bytes: context.write_budget.max_acquire_bytes(),
        config,
        started: Instant::now(),
        changed: Notify::new(),
        over: Notify::new(),
    });
    let mut streams = JoinSet::new();
    let max_streams = shared.state().max_streams();
    for _ in 0..max_streams {
        streams.spawn(stream::work(Arc::clone(&shared)));
    }
    let mut tick = tokio::time::interval(PROGRESS_INTERVAL);
    let ended = loop {
        {
            let view = view.borrow_and_update();
            if let Some(error) = &view.failed {
                break Err(error.clone());
            }
            if let Some(got) = view.digest {
                break Ok(Some(got));
            }
        }
        tokio::select! {
            _ = view.changed() => continue,
            // The sender is in `spec`.
            Ok(()) = limit.changed() => {
                shared.state().plan.limit(*limit.borrow_and_update());
                shared.changed.notify_waiters();
            }
            () = shared.over.notified() => {}
            () = stopped(&mut control.stop) => break Ok(None),
            _ = tick.tick() => {}
        }
        report(context, &shared, &view, control);
        if let Some(error) = shared.state().failure.clone() {
            break Err(error);
        }
    };
    streams.shutdown().await;
    report(context, &shared, &view, control);
    let shared = Arc::into_inner(shared).ok_or(DownloadError::Aborted)?;
    let supplied = shared.state().health.sources.iter().map(|source| source.supplied.clone()).collect();
    let spool = shared.spool;
    let staged = blocking(move || Ok(spool.stop())).await?;
    let Some(got) = ended? else { return Ok(None) };
    Ok(Some(Hashed { got, staged: staged.ok_or(DownloadError::Aborted)?, supplied }))
}

/// Reports progress and notices.
fn report(
    context: &DownloadContext,
    shared: &Shared,
    view: &watch::Receiver<spool::SpoolStatus>,
    control: &DownloadControl,
) {
    let (notices, mut now) = {
        let mut state = shared.state();
        let mut now = BlobProgress::new(shared.size_bytes);
        now.held_bytes = state.plan.received_bytes();
        now.bytes_per_s = state.speed.bytes_per_s(shared.now());
        now.streams = state.plan.leases();
        now.host = state.health.current_host().map(str::to_owned);
        (std::mem::take(&mut state.notices), now)
    };
    let left_bytes = now.size_bytes - now.held_bytes;
    now.phase = if left_bytes == 0 { Phase::Verifying } else { Phase::Fetching };
    {
        let view = view.borrow();
        (now.prefix_bytes, now.written) = (view.hashed_bytes, view.written.clone());
    }
    now.eta = left_bytes.checked_div(now.bytes_per_s).map(Duration::from_secs);
    context.disk_space.set_remaining(shared.digest, left_bytes);
    control.progress.send_modify(|progress| {
        now.attempt = progress.attempt;
        now.held_bytes = now.held_bytes.max(progress.held_bytes);
        now.prefix_bytes = now.prefix_bytes.max(progress.prefix_bytes);
        *progress = now;
    });
    notices.into_iter().for_each(|notice| (control.on_notice)(notice));
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A closed channel means that the download is no longer in the queue.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The file of a blob that exists already.
fn file_of(context: &DownloadContext, digest: &Digest, size_bytes: u64) -> Option<PathBuf> {
    let path = context.library.blob_path(digest);
    let whole = std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() == size_bytes);
    whole.then_some(path).or_else(|| context.staging.ready(digest, size_bytes))
}

fn present(context: &DownloadContext, spec: &DownloadSpec) -> Result<CompletedBlob, DownloadError> {
    let (digest, size_bytes) = (spec.digest, spec.size_bytes);
    let path = file_of(context, &digest, size_bytes).ok_or(DownloadError::Aborted)?;
    Ok(CompletedBlob { digest, size_bytes, path, present: true, wrong_hosts: Vec::new() })
}

fn hosts(spec: &DownloadSpec, indices: &[usize]) -> Vec<String> {
    indices.iter().filter_map(|index| spec.sources.get(*index)).map(|source| source.host().to_owned()).collect()
}

/// Runs a disk operation on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StagingError> + Send + 'static,
) -> Result<T, DownloadError> {
    Ok(spawn_blocking(work).await.map_err(|_| DownloadError::Aborted)??)
}
