//! One run of a download: claims the blob, fetches what is missing, and makes it ready or throws it away; again from the
//! beginning where that may help.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cairn_store::{Digest, Ranges, StagedBlob, StagingError};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::Instant;

use super::error::{DownloadError, Notice};
use super::health::Health;
use super::spool::{self, Spool};
use super::state::State;
use super::stream::{self, Shared};
use super::suspects::Suspects;
use super::{BlobProgress, Outcome, Phase, Place, Ready, Reins, Wanted};

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(60);

/// A blob that came whole, with whatever digest.
struct Hashed {
    got: Digest,
    staged: StagedBlob,
    /// Which bytes each source sent.
    supplied: Vec<Ranges>,
}

/// Fetches a blob until it is ready, there is no way to, or it is told to stop.
pub(crate) async fn fetch(place: &Arc<Place>, wanted: &Wanted, reins: &mut Reins) -> Result<Outcome, DownloadError> {
    let ended = attempts(place, wanted, reins).await;
    place.room.give_back(&wanted.digest);
    ended.map_err(|error| place.room.explain(error))
}

async fn attempts(place: &Arc<Place>, wanted: &Wanted, reins: &mut Reins) -> Result<Outcome, DownloadError> {
    let mut suspects = Suspects::default();
    let mut told = 0;
    let tell_wrong = |suspects: &Suspects, told: &mut usize, reins: &Reins| {
        for host in hosts(wanted, suspects.wrong.get(*told..).unwrap_or_default()) {
            (reins.tell)(Notice::WrongBytes { host, digest: wanted.digest });
        }
        *told = suspects.wrong.len();
    };
    // Each failed attempt but the first tells of one more source that it is wrong.
    loop {
        let Some(staged) = claim(place, wanted, reins).await? else {
            let stopped = *reins.stop.borrow();
            return Ok(if stopped { Outcome::Stopped } else { Outcome::Ready(present(place, wanted)?) });
        };
        let earlier = staged.held().clone();
        let left_bytes = wanted.size_bytes - earlier.total_bytes();
        place.room.set_aside(wanted.digest, left_bytes)?;
        let hashed = attempt(place, wanted, reins, staged, &suspects).await?;
        let Some(Hashed { got, staged, supplied }) = hashed else { return Ok(Outcome::Stopped) };
        let right = got == wanted.digest;
        let (verdict, ended) = blocking(move || {
            let file = staged.file();
            if right {
                suspects.right(&*file)?;
                return Ok((suspects, Ok(staged.finish()?)));
            }
            let again = suspects.mismatch(&*file, &supplied, &earlier)?;
            staged.discard()?;
            Ok((suspects, Err(again)))
        })
        .await?;
        suspects = verdict;
        tell_wrong(&suspects, &mut told, reins);
        match ended {
            Ok(path) => {
                let wrong_hosts = hosts(wanted, &suspects.wrong);
                let (digest, size_bytes) = (wanted.digest, wanted.size_bytes);
                return Ok(Outcome::Ready(Ready { digest, size_bytes, path, present: false, wrong_hosts }));
            }
            Err(Some(again)) => {
                let again = hosts(wanted, &[again]).join("");
                (reins.tell)(Notice::Mismatch { again });
                reins.progress.send_modify(|progress| {
                    progress.attempt += 1;
                    (progress.held_bytes, progress.prefix_bytes, progress.written) = (0, 0, Ranges::new());
                });
            }
            Err(None) => {
                let hosts = hosts(wanted, &suspects.wrong);
                return Err(DownloadError::Mismatch { want: wanted.digest, got, hosts });
            }
        }
    }
}

/// The blob, to be fetched by this process alone; `None` when it is there already, or it is time to stop.
async fn claim(place: &Arc<Place>, wanted: &Wanted, reins: &mut Reins) -> Result<Option<StagedBlob>, DownloadError> {
    let mut waiting = false;
    loop {
        let (in_place, digest, size_bytes) = (Arc::clone(place), wanted.digest, wanted.size_bytes);
        let claimed = blocking(move || {
            // The claim first: who held it before may have just finished.
            let claimed = in_place.staging.claim(&digest, size_bytes);
            match file_of(&in_place, &digest, size_bytes) {
                Some(_) => {
                    if let Ok(staged) = claimed {
                        staged.discard()?;
                    }
                    Ok(Ok(None))
                }
                None => match claimed {
                    Err(StagingError::InUse(_)) => Ok(Err(in_place.staging.held_bytes(&digest))),
                    claimed => Ok(Ok(Some(claimed?))),
                },
            }
        })
        .await?;
        match claimed {
            Ok(claimed) => return Ok(claimed),
            Err(held_bytes) => {
                if !std::mem::replace(&mut waiting, true) {
                    (reins.tell)(Notice::Elsewhere);
                }
                reins.progress.send_modify(|progress| {
                    progress.phase = Phase::Elsewhere;
                    progress.held_bytes = progress.held_bytes.max(held_bytes);
                });
                tokio::select! {
                    () = tokio::time::sleep(place.config.poll) => {}
                    () = stopped(&mut reins.stop) => return Ok(None),
                }
            }
        }
    }
}

/// Fetches what is missing and computes the digest of the whole. `None` when it was told to stop.
async fn attempt(
    place: &Arc<Place>,
    wanted: &Wanted,
    reins: &mut Reins,
    staged: StagedBlob,
    suspects: &Suspects,
) -> Result<Option<Hashed>, DownloadError> {
    let (digest, size_bytes, config) = (wanted.digest, wanted.size_bytes, Arc::clone(&place.config));
    let health = Health::new(&wanted.sources, Arc::clone(&config), &suspects.wrong, suspects.alone);
    let mut state = State::new(digest, size_bytes, staged.held().clone(), health, Arc::clone(&config));
    state.wishes = Arc::clone(&wanted.wishes);
    let room = Arc::clone(&place.room);
    let spool = Spool::start(staged, size_bytes, Arc::clone(&place.credits), Box::new(move || room.check()));
    let mut view = spool.view();
    let shared = Arc::new(Shared {
        digest,
        size_bytes,
        state: state.into(),
        spool,
        throttle: Arc::clone(&place.throttle),
        piece_bytes: place.credits.most_bytes(),
        config,
        started: Instant::now(),
        changed: Notify::new(),
        over: Notify::new(),
    });
    let mut streams = JoinSet::new();
    let most_streams = shared.state().most_streams();
    for _ in 0..most_streams {
        streams.spawn(stream::work(Arc::clone(&shared)));
    }
    let mut tick = tokio::time::interval(TELL_EVERY);
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
            () = shared.over.notified() => {}
            () = stopped(&mut reins.stop) => break Ok(None),
            _ = tick.tick() => {}
        }
        tell(place, &shared, &view, reins);
        if let Some(error) = shared.state().failure.clone() {
            break Err(error);
        }
    };
    streams.shutdown().await;
    tell(place, &shared, &view, reins);
    let shared = Arc::into_inner(shared).ok_or(DownloadError::Ended)?;
    let supplied = shared.state().health.sources.iter().map(|source| source.supplied.clone()).collect();
    let spool = shared.spool;
    let staged = blocking(move || Ok(spool.stop())).await?;
    let Some(got) = ended? else { return Ok(None) };
    Ok(Some(Hashed { got, staged: staged.ok_or(DownloadError::Ended)?, supplied }))
}

/// Tells how far it has come, and what happened.
fn tell(place: &Place, shared: &Shared, view: &watch::Receiver<spool::View>, reins: &Reins) {
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
    place.room.left(shared.digest, left_bytes);
    reins.progress.send_modify(|progress| {
        now.attempt = progress.attempt;
        now.held_bytes = now.held_bytes.max(progress.held_bytes);
        now.prefix_bytes = now.prefix_bytes.max(progress.prefix_bytes);
        *progress = now;
    });
    notices.into_iter().for_each(|notice| (reins.tell)(notice));
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Whoever held the other end is gone together with the wish that it go on.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The file of a blob that is here.
fn file_of(place: &Place, digest: &Digest, size_bytes: u64) -> Option<PathBuf> {
    let path = place.library.blob_path(digest);
    let whole = std::fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() == size_bytes);
    whole.then_some(path).or_else(|| place.staging.ready(digest, size_bytes))
}

fn present(place: &Place, wanted: &Wanted) -> Result<Ready, DownloadError> {
    let (digest, size_bytes) = (wanted.digest, wanted.size_bytes);
    let path = file_of(place, &digest, size_bytes).ok_or(DownloadError::Ended)?;
    Ok(Ready { digest, size_bytes, path, present: true, wrong_hosts: Vec::new() })
}

fn hosts(wanted: &Wanted, indices: &[usize]) -> Vec<String> {
    indices.iter().filter_map(|index| wanted.sources.get(*index)).map(|source| source.host().to_owned()).collect()
}

/// Disks make threads wait, which those that serve streams must not.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StagingError> + Send + 'static,
) -> Result<T, DownloadError> {
    Ok(spawn_blocking(work).await.map_err(|_| DownloadError::Ended)??)
}
